/* A program that does what it is told, to see that the sandbox lets it. */
#include "attack.h"
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

static void on_terminate(int signal_number) {
    (void)signal_number;
    (void)!write(1, "terminated\n", 11);
    _exit(5);
}
static void *answer(void *number) { return (void *)((intptr_t)number + 1); }

static int leave(const char *text) {
    FILE *file = fopen(getenv("PUNCTUAL_OUTPUT"), "w");
    return !file || fputs(text, file) < 0 || fclose(file);
}
/* What ordinary programs need. */
static int needs(void) {
    int ends[2];
    pthread_t thread;
    void *result;
    char folder[64], link[64];
    if (pthread_create(&thread, NULL, answer, (void *)41) || pthread_join(thread, &result) || (intptr_t)result != 42) return 1;
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
    if (!getcwd(folder, sizeof folder) || strcmp(folder, "/tmp")) return 3;
    if (mkfifo("/tmp/fifo", 0600)) return 4;
    int random_bytes = open("/dev/urandom", O_RDONLY), nothing = open("/dev/null", O_WRONLY);
    if (read(random_bytes, folder, 8) != 8 || write(nothing, "x", 1) != 1) return 5;
    if (rename("/tmp/fifo", "/tmp/other") || unlink("/tmp/other")) return 6;
    if (fork() == 0) _exit(9);
    int status;
    if (wait(&status) < 0 || WEXITSTATUS(status) != 9) return 7;
    if (getuid() != 1000 || getpid() != 2) return 8;
    if (readlink("/proc/self/exe", link, sizeof link) < 0) return 9;
    if (shm_open("/shared", O_CREAT | O_RDWR, 0600) < 0) return 10;
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "true";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "true")) return 0;
    if (!strcmp(what, "exit")) return atoi(argv[2]);
    if (!strcmp(what, "signal")) { raise(atoi(argv[2])); return 0; }
    if (!strcmp(what, "again")) { execv("/proc/self/exe", argv + 1); return 1; }
    if (!strcmp(what, "needs")) return needs();
    if (!strcmp(what, "umask")) { printf("%04o\n", umask(0)); return 0; }
    if (!strcmp(what, "leave")) return leave(argv[2]);
    if (!strcmp(what, "leave_link")) return symlink(argv[2], getenv("PUNCTUAL_OUTPUT"));
    if (!strcmp(what, "leave_fifo")) return mkfifo(getenv("PUNCTUAL_OUTPUT"), 0600);
    if (!strcmp(what, "leave_folder")) return mkdir(getenv("PUNCTUAL_OUTPUT"), 0700);
    if (!strcmp(what, "leave_magic")) return symlink("/proc/self/exe", getenv("PUNCTUAL_OUTPUT"));
    if (!strcmp(what, "args")) { for (int i = 2; i < argc; i++) puts(argv[i]); return 0; }
    if (!strcmp(what, "env")) { for (char **each = environ; *each; each++) puts(*each); return 0; }
    if (!strcmp(what, "cat")) {
        char bytes[4096];
        for (ssize_t len; (len = read(0, bytes, sizeof bytes)) > 0;) if (write(1, bytes, len) != len) return 1;
        return 0;
    }
    if (!strcmp(what, "namespaces")) {
        const char *names[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
        for (int i = 0; i < 7; i++) {
            char path[64], link[64] = "";
            snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
            if (readlink(path, link, sizeof link - 1) < 0) return 1;
            puts(link);
        }
        return 0;
    }
    if (!strcmp(what, "both")) { (void)!write(1, "out", 3); (void)!write(2, "err", 3); return 0; }
    if (!strcmp(what, "sleep")) { puts("ready"); usleep(atoi(argv[2]) * 1000); return 0; }
    if (!strcmp(what, "family")) {
        /* Children and grandchildren that would stay. */
        for (int i = 0; i < 5; i++) if (fork() == 0) { setsid(); fork(); for (;;) pause(); }
        usleep(20000);
        puts("ready");
        for (;;) pause();
    }
    if (!strcmp(what, "terminate")) { signal(SIGTERM, on_terminate); puts("ready"); for (;;) pause(); }
    if (!strcmp(what, "touch")) { touch((size_t)atoi(argv[2]) << 20); return 0; }
    if (!strcmp(what, "spin")) { for (volatile long i = 0;; i++) {} }
    if (!strcmp(what, "write_much")) { for (int i = 0; i < atoi(argv[2]); i++) { static char line[1024]; (void)!write(1, line, 1024); } return 0; }
    return 67;
}
