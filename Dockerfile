# kafkatool in a small image, for `kubectl debug` and `docker run`: see docs/kubernetes.md.
#
#   docker build -t kafkatool .
#   docker build -t kafkatool --build-arg EXTRAS=arrow .
#   docker run --rm --read-only -v /var/lib/kafka/data:/data:ro kafkatool ls /data

ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The wheel has the compiled kernel; versions are those that a release was tested with.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
ARG EXTRAS=
RUN python -m venv /opt/kafkatool \
    && /opt/kafkatool/bin/pip install --no-cache-dir --only-binary :all: --constraint release/constraints.txt \
        "$(echo /wheels/kafkatool-*.whl)${EXTRAS:+[$EXTRAS]}" \
    && /opt/kafkatool/bin/pip uninstall --yes pip setuptools \
    && /opt/kafkatool/bin/kafkatool --version | grep 'kernel: compiled'

FROM python:${PYTHON}-slim
COPY --from=build /opt/kafkatool /opt/kafkatool
ENV PATH=/opt/kafkatool/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    LANG=C.UTF-8
WORKDIR /data
# The user that most images of Kafka run as: who owns the files may ask what of them is in the page cache.
USER 1000:1000
ENTRYPOINT ["kafkatool"]
CMD ["--help"]
