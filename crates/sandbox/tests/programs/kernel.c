/* Calls the rare and dangerous parts of the kernel. */
#include "attack.h"
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/filter.h>
#include <sys/acct.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

static int io_uring(void) {
    char params[256] = {0};
    return judge("io_uring_setup", syscall(425, 8, params)) | judge("io_uring_register", syscall(427, -1, 0, 0, 0));
}
static int bpf(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return judge("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}
static int keyrings(void) {
    return judge("keyctl", syscall(SYS_keyctl, 0, -3, 1)) |
           judge("add_key", syscall(SYS_add_key, "user", "escaped", "x", 1, -3)) |
           judge("request_key", syscall(SYS_request_key, "user", "escaped", NULL, -3));
}
static int userfaultfd(void) { return judge("userfaultfd", syscall(SYS_userfaultfd, 1)); }
static int perf(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    return judge("perf_event_open", syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}
static int modules(void) {
    return judge("init_module", syscall(SYS_init_module, "", 0, "")) |
           judge("finit_module", syscall(SYS_finit_module, 0, "", 0)) |
           judge("delete_module", syscall(SYS_delete_module, "none", 0));
}
static int kexec(void) {
    return judge("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0)) |
           judge("kexec_file_load", syscall(SYS_kexec_file_load, 0, 0, 0, "", 0));
}
static int restart(void) { return judge("reboot", reboot(RB_DISABLE_CAD)); }
static int swap(void) { return judge("swapon", swapon("/tmp/x", 0)) | judge("swapoff", swapoff("/tmp/x")); }
static int ports(void) {
#ifdef __x86_64__
    return judge("iopl", syscall(SYS_iopl, 3)) | judge("ioperm", syscall(SYS_ioperm, 0x80, 1, 1)) |
           judge("modify_ldt", syscall(SYS_modify_ldt, 0, NULL, 0));
#else
    return 0;
#endif
}
static int accounting(void) {
    return judge("acct", acct("/tmp/acct")) | judge("quotactl", quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL));
}
static int set_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct timeval also_now = {now.tv_sec, now.tv_nsec / 1000};
    struct timex nothing = {.modes = ADJ_TICK, .tick = 10000};
    return judge("clock_settime", clock_settime(CLOCK_REALTIME, &now)) |
           judge("settimeofday", settimeofday(&also_now, NULL)) | judge("adjtimex", adjtimex(&nothing)) |
           judge("clock_adjtime", clock_adjtime(CLOCK_REALTIME, &nothing));
}
static int kernel_log(void) {
    char bytes[64];
    return judge("syslog", syscall(SYS_syslog, 3, bytes, sizeof bytes));
}
static int watch_all_files(void) { return judge("fanotify_init", syscall(SYS_fanotify_init, 0, 0)); }
static int secret_memory(void) { return judge("memfd_secret", syscall(447, 0)); }
static int move_memory(void) {
    return judge("migrate_pages", syscall(SYS_migrate_pages, 0, 0, NULL, NULL)) |
           judge("move_pages", syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0)) |
           judge("set_mempolicy", syscall(SYS_set_mempolicy, 0, NULL, 0));
}
static int shared_memory_ids(void) {
    return judge("shmget", syscall(SYS_shmget, 1, 4096, 01600)) | judge("msgget", syscall(SYS_msgget, 1, 01600)) |
           judge("semget", syscall(SYS_semget, 1, 1, 01600)) |
           judge("mq_open", syscall(SYS_mq_open, "escaped", O_CREAT | O_RDWR, 0600, NULL));
}
static int flush_machine(void) {
    return judge("sync", syscall(SYS_sync)) | judge("syncfs", syncfs(open("/tmp", O_RDONLY)));
}
static int hang_up(void) { return judge("vhangup", vhangup()); }
static int type_into_terminal(void) {
    int bad = 0;
    for (int fd = 0; fd < 3; fd++)
        bad |= judge("TIOCSTI", ioctl(fd, TIOCSTI, "x")) | judge("TIOCLINUX", ioctl(fd, TIOCLINUX, "\x02")) |
               judge("TIOCSCTTY", ioctl(fd, TIOCSCTTY, 1));
    return bad;
}
static int extra_attributes(void) {
    int fd = open("/tmp/x", O_CREAT | O_WRONLY, 0600);
    return judge("setxattr", syscall(SYS_fsetxattr, fd, "user.a", "x", 1, 0)) |
           judge("trusted", syscall(SYS_fsetxattr, fd, "trusted.a", "x", 1, 0));
}
/* Refused by the filter, not for want of the thing. */
static int filtered(const char *what, long result) {
    if (result >= 0 || errno != ENOSYS) {
        printf("ESCAPED: %s gave %ld: %s\n", what, result, strerror(errno));
        return 1;
    }
    return 0;
}
static int huge_pages(void) {
    void *page = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    return filtered("mmap", page == MAP_FAILED ? -1 : 0) | filtered("memfd", memfd_create("huge", MFD_HUGETLB));
}
static int urgent_bytes(void) {
    int both[2];
    char byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both)) return 1;
    return filtered("send", send(both[0], "x", 1, MSG_OOB)) | filtered("sendmsg", sendmsg(both[0], &message, MSG_OOB)) |
           filtered("recv", recv(both[1], &byte, 1, MSG_OOB | MSG_DONTWAIT));
}
static int packet_filters(void) {
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0xffff}};
    struct sock_fprog program = {1, all};
    int both[2], one = 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, both)) return 1;
    if (setsockopt(both[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof one)) return 1;
    return filtered("filter", setsockopt(both[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) |
           filtered("bpf", setsockopt(both[0], SOL_SOCKET, SO_ATTACH_BPF, &one, sizeof one)) |
           filtered("reuseport", setsockopt(both[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program));
}
static int watch_files(void) {
    /* A user has 128 of these on the whole machine. */
    return filtered("inotify_init1", inotify_init1(0)) | filtered("inotify_init", inotify_init());
}
static int other_queues(void) {
    unsigned long context = 0;
    return filtered("io_setup", syscall(SYS_io_setup, 8, &context)) | filtered("vmsplice", syscall(SYS_vmsplice, 1, NULL, 0, 0)) |
           filtered("landlock", syscall(444, NULL, 0, 1)) | filtered("remap", syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0));
}
static int calls_of_the_future(void) {
    int bad = 0;
    for (long call = 450; call < 1024; call++) {
        errno = 0;
        bad |= filtered("a new call", syscall(call, -1, -1, -1, -1, -1, -1));
    }
    return bad;
}
static int calls_of_the_past(void) {
#ifdef __x86_64__
    long old[] = {134, 136, 139, 154, 156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 205, 211, 212, 214, 215, 236};
    int bad = 0;
    for (int i = 0; i < 20; i++) bad |= filtered("an old call", syscall(old[i], -1, -1, -1, -1));
    return bad;
#else
    return 0;
#endif
}
static int random_pool(void) {
    int fd = open("/dev/random", O_RDWR), count = 1 << 20;
    return judge("RNDADDTOENTCNT", ioctl(fd, 0x40045201, &count)) | judge("RNDCLEARPOOL", ioctl(fd, 0x5206)) |
           judge("RNDRESEEDCRNG", ioctl(fd, 0x5207));
}
static int file_system_calls(void) {
    int fd = open("/tmp", O_RDONLY), flags = 0x10;
    return judge("FIFREEZE", ioctl(fd, 0xc0045877, 0)) | judge("SETFLAGS", ioctl(fd, 0x40086602, &flags)) |
           judge("FICLONE", ioctl(fd, 0x40049409, 0)) | judge("TIOCCONS", ioctl(1, 0x541d, 0));
}
static int processor_games(void) {
    return judge("speculation", prctl(53, 0, 2, 0, 0)) | judge("core scheduling", prctl(62, 1, 0, 0, 0)) |
           judge("tagged addresses", prctl(55, 1, 0, 0, 0)) | judge("machine check", prctl(33, 1, 1, 0, 0));
}
/* The two below use other entries into the kernel, which a filter may have forgotten. */
static int x32_calls(void) {
#ifdef __x86_64__
    return judge("x32 unshare", syscall(0x40000000 | SYS_unshare, 0x10000000)) | judge("x32 getpid", syscall(0x40000000 | SYS_getpid));
#else
    return 0;
#endif
}
static int calls_of_32_bits(void) {
#ifdef __x86_64__
    long result;
    /* 20 is getpid of i386. */
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    printf("ESCAPED: a 32-bit call gave %ld\n", result);
    return 1;
#else
    raise(31);
    return 1;
#endif
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"io_uring", io_uring}, {"bpf", bpf}, {"keyrings", keyrings}, {"userfaultfd", userfaultfd}, {"perf", perf},
        {"modules", modules}, {"kexec", kexec}, {"restart", restart}, {"swap", swap}, {"ports", ports},
        {"accounting", accounting}, {"set_clock", set_clock}, {"kernel_log", kernel_log},
        {"watch_all_files", watch_all_files}, {"secret_memory", secret_memory}, {"move_memory", move_memory},
        {"shared_memory_ids", shared_memory_ids}, {"flush_machine", flush_machine}, {"hang_up", hang_up},
        {"type_into_terminal", type_into_terminal}, {"extra_attributes", extra_attributes},
        {"huge_pages", huge_pages},
        {"urgent_bytes", urgent_bytes}, {"packet_filters", packet_filters}, {"watch_files", watch_files},
        {"other_queues", other_queues}, {"calls_of_the_future", calls_of_the_future}, {"calls_of_the_past", calls_of_the_past},
        {"random_pool", random_pool}, {"file_system_calls", file_system_calls}, {"processor_games", processor_games},
        {"x32_calls", x32_calls}, {"calls_of_32_bits", calls_of_32_bits}, {0}});
}
