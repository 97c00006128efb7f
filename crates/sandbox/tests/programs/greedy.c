/* Takes all it can get. Each ends by itself only if it was stopped from taking more. */
#include "attack.h"
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

static int fork_bomb(void) {
    int refusals = 0;
    for (int i = 0; i < 100000 && refusals < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) for (;;) fork();
        if (pid < 0) refusals++;
    }
    return refusals < 3;
}
static void *asleep(void *unused) { for (;;) pause(); return unused; }
static int thread_bomb(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < 100000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, asleep, NULL)) return 0;
    }
    return 1;
}
static int fill(int fd, size_t total) {
    static char bytes[1 << 16];
    memset(bytes, 'x', sizeof bytes);
    for (size_t done = 0; done < total; done += sizeof bytes)
        if (write(fd, bytes, sizeof bytes) != sizeof bytes) return errno;
    return 0;
}
static const size_t MUCH = (size_t)2 << 30;
static int memory_private(void) {
    for (size_t done = 0; done < MUCH; done += 1 << 20) {
        char *piece = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) return 0;
        memset(piece, 1, 1 << 20);
    }
    return 1;
}
static int memory_shared(void) {
    for (size_t done = 0; done < MUCH; done += 1 << 20) {
        char *piece = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) return 0;
        memset(piece, 1, 1 << 20);
    }
    return 1;
}
/* Only a shared mapping counts here: how much one process may have is limited in any case. */
static int memory_of_nobody(void) {
    size_t much = (size_t)256 << 20;
    int zero = open("/dev/zero", O_RDWR);
    void *anonymous = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *device = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0);
    return (anonymous != MAP_FAILED) | (device != MAP_FAILED) << 1;
}
static int memory_memfd(void) {
    for (size_t done = 0; done < MUCH; done += 1 << 24)
        if (fill(memfd_create("much", 0), 1 << 24)) return 0;
    return 1;
}
static int memory_files(void) { return !fill(open("/tmp/much", O_CREAT | O_WRONLY, 0600), MUCH); }
static int memory_children(void) {
    /* Each alone is small; together they are too much. */
    for (int i = 0; i < 24; i++)
        if (fork() == 0) {
            touch(16 << 20);
            pause();
        }
    for (int i = 0; i < 24; i++) {
        int status;
        if (wait(&status) > 0 && WIFSIGNALED(status)) return 0;
    }
    return 1;
}
static int disk(void) { return fill(open("/tmp/much", O_CREAT | O_WRONLY, 0600), MUCH) != ENOSPC; }
static int disk_inodes(void) {
    for (int i = 0; i < 2000000; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/%d", i);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (fd < 0) return errno != ENOSPC;
        close(fd);
    }
    return 1;
}
static int disk_allocate(void) {
    int fd = open("/tmp/much", O_CREAT | O_WRONLY, 0600);
    /* Up to what is left, the kernel gives it back if it is not enough. */
    for (int i = 0; i < 4096; i++)
        if (posix_fallocate(fd, (off_t)i << 16, 1 << 16)) return 0;
    return 1;
}
static int one_large_file(void) {
    int fd = open("/tmp/sparse", O_CREAT | O_WRONLY, 0600);
    return pwrite(fd, "x", 1, (off_t)1 << 40) == 1;
}
static int output(void) { return !fill(1, MUCH); }
static int errors(void) { return !fill(2, MUCH); }
static int result(void) { return fill(open(getenv("PUNCTUAL_OUTPUT"), O_CREAT | O_WRONLY, 0600), 2 << 20); }
static int descriptors(void) {
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0) count++;
    printf("%d descriptors\n", count);
    return count > 256;
}
static int pipes(void) {
    int both[2], count = 0;
    while (count < 1000 && !pipe(both)) count++, fcntl(both[0], F_SETPIPE_SZ, 1 << 20);
    return count > 128;
}
static int descriptors_in_flight(void) {
    /* Sent and never received. The kernel counts them for all programs of this user together. */
    union { char space[CMSG_SPACE(200 * sizeof(int))]; struct cmsghdr head; } control = {0};
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(200 * sizeof(int))};
    int *sent = (int *)CMSG_DATA(&control.head);
    for (int i = 0; i < 200; i++) sent[i] = 0;
    int both[2], refused = 0;
    while (!refused && !socketpair(AF_UNIX, SOCK_DGRAM, 0, both)) {
        while (sendmsg(both[0], &message, MSG_DONTWAIT) == 1) {}
        refused = errno == ETOOMANYREFS;
    }
    puts("ready");
    sleep(1);
    return !refused;
}
static int timers(void) {
    timer_t timer;
    int count = 0;
    while (count < 100000 && !timer_create(CLOCK_MONOTONIC, NULL, &timer)) count++;
    return count > 2000;
}
static int signals_pending(void) {
    union sigval nothing = {0};
    sigset_t all;
    int count = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    while (count < 100000 && !sigqueue(getpid(), SIGRTMIN, nothing)) count++;
    return count > 2000;
}
static int epolls(void) {
    /* Each watches all the others, as far as the kernel lets them. */
    int fds[300], count = 0;
    while (count < 300 && (fds[count] = epoll_create1(0)) >= 0) count++;
    struct epoll_event any = {.events = EPOLLIN};
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) epoll_ctl(fds[i], EPOLL_CTL_ADD, fds[j], &any);
    return count > 256;
}
static int deep_folders(void) {
    int depth = 0;
    while (depth < 100000 && !mkdir("d", 0700) && !chdir("d")) depth++;
    return depth == 100000;
}
static int endless_stack(int depth) {
    volatile char page[4096];
    page[0] = depth;
    return endless_stack(depth + 1) + page[0];
}
static int stack(void) { return endless_stack(0); }
static int execute_again(void) {
    char *left = getenv("LEFT"), next[32];
    int runs = left ? atoi(left) : 300;
    if (runs == 0) return 0;
    snprintf(next, sizeof next, "LEFT=%d", runs - 1);
    char *args[] = {"greedy", "execute_again", NULL}, *env[] = {next, NULL};
    execve("/proc/self/exe", args, env);
    return 1;
}
static void *spin(void *unused) { for (volatile long i = 0;; i++) {} return unused; }
static int processor(void) {
    pthread_t thread;
    for (int i = 0; i < 16; i++) pthread_create(&thread, NULL, spin, NULL);
    puts("ready");
    spin(NULL);
    return 1;
}
static int core_dump(void) { abort(); return 1; }
static int ignore_terminate(void) {
    signal(SIGTERM, SIG_IGN);
    puts("ready");
    for (;;) pause();
    return 1;
}
static int stop_itself(void) {
    /* A polite signal between these two lines must find it stopped, too. */
    sigset_t polite;
    sigemptyset(&polite);
    sigaddset(&polite, SIGTERM);
    sigprocmask(SIG_BLOCK, &polite, 0);
    puts("ready");
    raise(SIGSTOP);
    return 1;
}
static int close_everything(void) {
    for (int fd = 0; fd < 256; fd++) close(fd);
    return write(1, "x", 1) == 1;
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"fork_bomb", fork_bomb}, {"thread_bomb", thread_bomb}, {"memory_private", memory_private},
        {"memory_shared", memory_shared}, {"memory_memfd", memory_memfd}, {"memory_of_nobody", memory_of_nobody}, {"memory_files", memory_files},
        {"memory_children", memory_children}, {"disk", disk}, {"disk_inodes", disk_inodes},
        {"disk_allocate", disk_allocate}, {"one_large_file", one_large_file}, {"output", output},
        {"errors", errors}, {"result", result}, {"descriptors", descriptors}, {"pipes", pipes},
        {"processor", processor}, {"descriptors_in_flight", descriptors_in_flight},
        {"timers", timers}, {"signals_pending", signals_pending}, {"epolls", epolls}, {"deep_folders", deep_folders},
        {"stack", stack}, {"execute_again", execute_again}, {"core_dump", core_dump}, {"ignore_terminate", ignore_terminate},
        {"stop_itself", stop_itself}, {"close_everything", close_everything}, {0}});
}
