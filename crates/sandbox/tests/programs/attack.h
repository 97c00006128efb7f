/* What every hostile program shares: a table of attacks, chosen by the first argument.
 *
 * An attack returns 0 if it was refused and 1 if it got anywhere it should not. The second
 * argument and those after it name things on the machine that it tries to reach. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define ESCAPED 66
#define UNKNOWN 67

struct attack {
    const char *name;
    int (*run)(void);
};

static char **targets;

/* Uses memory in a way that no compiler leaves out. */
static void touch(size_t size) {
    volatile char *bytes = malloc(size);
    for (size_t at = 0; bytes && at < size; at += 4096) bytes[at] = 1;
}

static int judge(const char *what, long result) {
    if (result >= 0) {
        printf("ESCAPED: %s gave %ld\n", what, result);
        return 1;
    }
    printf("refused: %s: %s\n", what, strerror(errno));
    return 0;
}

static int can_open(const char *path, int flags) { return judge(path, open(path, flags | O_NONBLOCK)); }

static int can_read(const char *path) {
    char byte;
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    return judge(path, fd < 0 ? -1 : read(fd, &byte, 1) > 0 ? 1 : -1);
}

static int choose(int argc, char **argv, const struct attack *attacks) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    targets = argv + 2;
    for (; argc > 1 && attacks->name; attacks++)
        if (!strcmp(attacks->name, argv[1]))
            return attacks->run() ? ESCAPED : 0;
    return UNKNOWN;
}
