/* bin/kafkatool of the bundle: starts the program in lib/ with the C library in lib/, whatever the host has.
 *
 * It is linked statically, so that nothing at all is needed to start it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "kafkatool: %s: %s\n", what, strerror(errno));
    return 3;
}

int main(int argc, char **argv)
{
    char home[PATH_MAX], library[PATH_MAX + 8], loader[PATH_MAX + 64], program[PATH_MAX + 64];
    ssize_t size = readlink("/proc/self/exe", home, sizeof home - 1);
    if (size < 0)
        return fail("/proc/self/exe (is /proc mounted?)");
    home[size] = '\0';
    for (int levels = 0; levels < 2; levels++) /* from bin/kafkatool to what holds bin/ */
        *strrchr(home, '/') = '\0';
    snprintf(library, sizeof library, "%s/lib", home);
    snprintf(loader, sizeof loader, "%s/%s", library, LOADER);
    snprintf(program, sizeof program, "%s/program", library);

    char **arguments = calloc((size_t)argc + 4, sizeof *arguments);
    if (arguments == NULL)
        return fail("out of memory");
    arguments[0] = loader;
    arguments[1] = "--library-path";
    arguments[2] = library;
    arguments[3] = program;
    for (int i = 1; i < argc; i++)
        arguments[3 + i] = argv[i];
    execv(loader, arguments);
    return fail(loader);
}
