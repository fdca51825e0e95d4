"""Build the compiled kernel where there is a C compiler; everything works without it, more slowly."""

from glob import glob

from setuptools import Extension, setup

KERNEL = "kafkatool/format/kernel"

# Given as Cython, which setuptools compiles: cythonize() would forget that the extension is optional.
setup(
    ext_modules=[
        Extension(
            "kafkatool.format.kernel.compiled",
            [f"{KERNEL}/compiled.pyx"],
            depends=sorted([*glob(f"{KERNEL}/*.pxi"), *glob(f"{KERNEL}/*.h")]),
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
    ]
)
