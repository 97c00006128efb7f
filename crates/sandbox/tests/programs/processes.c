/* Reaches for other processes, and for more rights. Target 1 is the id of a process outside. */
#include "attack.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

static int outside(void) { return atoi(targets[1]); }

static int trace_me(void) { return judge("traceme", ptrace(PTRACE_TRACEME, 0, 0, 0)); }
static int trace_child(void) {
    pid_t child = fork();
    if (child == 0) { pause(); _exit(0); }
    int bad = judge("attach", ptrace(PTRACE_ATTACH, child, 0, 0)) | judge("seize", ptrace(PTRACE_SEIZE, child, 0, 0));
    kill(child, SIGKILL);
    return bad;
}
static int trace_init(void) { return judge("attach 1", ptrace(PTRACE_ATTACH, 1, 0, 0)); }
static int trace_outside(void) { return judge("attach", ptrace(PTRACE_ATTACH, outside(), 0, 0)); }
static int read_memory(void) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return judge("process_vm_readv 1", process_vm_readv(1, &here, 1, &there, 1, 0)) |
           judge("process_vm_readv", process_vm_readv(outside(), &here, 1, &there, 1, 0)) |
           judge("process_vm_writev", process_vm_writev(getppid(), &here, 1, &there, 1, 0));
}
static int steal_descriptor(void) {
    int init = syscall(SYS_pidfd_open, 1, 0);
    return judge("pidfd_getfd", syscall(SYS_pidfd_getfd, init, 3, 0)) | judge("kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0));
}
static int kill_everybody(void) {
    signal(SIGTERM, SIG_IGN);
    kill(-1, SIGTERM);
    pid_t child = fork();
    if (child == 0) {
        kill(-1, SIGKILL);
        _exit(0);
    }
    /* Reached only if the first process of the sandbox is not the victim either. */
    pause();
    return 1;
}
static int signal_outside(void) {
    return judge("kill", kill(outside(), SIGKILL)) | judge("pidfd_open", syscall(SYS_pidfd_open, outside(), 0)) |
           judge("setpriority", setpriority(PRIO_PROCESS, outside(), 19));
}
static int stop_outside(void) {
    union sigval nothing = {0};
    return judge("stop", kill(outside(), SIGSTOP)) | judge("queue", sigqueue(outside(), SIGSTOP, nothing)) |
           judge("tgkill", syscall(SYS_tgkill, outside(), outside(), SIGSTOP)) |
           judge("group", kill(-outside(), SIGSTOP));
}
static int stop_siblings(void) {
    /* All processes that it can see; that it goes on afterwards shows that it could see itself only. */
    pid_t child = fork();
    if (child == 0) {
        kill(-1, SIGSTOP);
        usleep(50000);
        kill(-1, SIGCONT);
        _exit(0);
    }
    return waitpid(child, NULL, 0) != child;
}
static int slow_everybody(void) {
    /* Its own processes only, although all programs are the same user outside. */
    return setpriority(PRIO_USER, 0, 19) != 0;
}
static int new_process_calls(void) {
    int init = syscall(SYS_pidfd_open, 1, 0);
    return judge("process_madvise", syscall(440, init, NULL, 0, 4, 0)) | judge("process_mrelease", syscall(448, init, 0)) |
           judge("sched_setattr", syscall(SYS_sched_setattr, 0, NULL, 0)) | judge("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 0x2000));
}
static int execute_in_memory(void) {
    /* It may, but the walls stand around what it executes, too. */
    char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("copy", 0);
    /* Refused where nothing counts such files as memory. */
    if (to < 0 && errno == ENOSYS) return 0;
    for (ssize_t len; (len = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, len) != len) return 1;
    char *args[] = {"copy", "status_of_rights", NULL}, *none[] = {NULL};
    fexecve(to, args, none);
    return 1;
}
static int become_dumpable(void) {
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    pid_t child = fork();
    if (child == 0) abort();
    int status;
    waitpid(child, &status, 0);
    return WCOREDUMP(status);
}
static int sibling_of_the_first(void) {
    long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) for (;;) pause();
    return child < 0;
}
static int kill_init(void) {
    kill(1, SIGKILL);
    kill(1, SIGSEGV);
    kill(1, SIGSTOP);
    usleep(50000);
    return 0;
}
static int reach_init(void) { return judge("kill 1", kill(1, 0)); }
static int limit_init(void) {
    struct rlimit none = {0, 0};
    return judge("prlimit", prlimit(1, RLIMIT_CPU, &none, NULL));
}
static int outlive(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            for (int signal_number = 1; signal_number < 65; signal_number++) signal(signal_number, SIG_IGN);
            for (;;) pause();
        }
        _exit(0);
    }
    wait(NULL);
    return 0;
}
static int many_orphans(void) {
    /* More than may live at once: only if the dead are taken away does it go on. */
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (fork() < 0) _exit(1);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
            printf("no process after %d orphans\n", i);
            return 1;
        }
        usleep(500);
    }
    return 0;
}

static int become_root(void) {
    return judge("setuid", syscall(SYS_setuid, 0)) | judge("setresuid", syscall(SYS_setresuid, 0, 0, 0)) |
           judge("setgid", syscall(SYS_setgid, 0)) | judge("setgroups", setgroups(0, NULL)) |
           judge("setfsuid", syscall(SYS_setfsuid, 0) < 0 ? -1 : 0);
}
static int gain_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    return judge("capset", syscall(SYS_capset, &header, all)) |
           judge("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)) |
           judge("securebits", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0)) | judge("keepcaps", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
}
static int status_of_rights(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    int seen = 0, bad = 0;
    while (status && fgets(line, sizeof line, status)) {
        if (!strncmp(line, "Cap", 3)) {
            seen++;
            bad |= strtoull(line + 8, NULL, 16) != 0;
        }
        if (!strncmp(line, "NoNewPrivs:", 11)) { seen++; bad |= atoi(line + 11) != 1; }
        if (!strncmp(line, "Seccomp:", 8)) { seen++; bad |= atoi(line + 8) != 2; }
        if (!strncmp(line, "Uid:", 4)) { seen++; bad |= atoi(line + 4) == 0; }
        if (bad) { printf("ESCAPED: %s", line); return 1; }
    }
    printf("%d lines looked at\n", seen);
    return seen != 8;
}
static int lift_filter(void) {
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {1, all};
    return judge("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)) |
           judge("prctl seccomp", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) |
           judge("disable", prctl(PR_SET_SECCOMP, 0, 0, 0, 0)) |
           judge("drop no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}
static int prctl_games(void) {
    return judge("mm", prctl(PR_SET_MM, PR_SET_MM_START_CODE, 0x400000, 0, 0)) |
           judge("ptracer", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)) |
           judge("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) |
           judge("io flusher", prctl(57, 1, 0, 0, 0)) | judge("dispatch", prctl(59, 1, 0, 0, 0));
}
static int change_personality(void) {
    return judge("no randomisation", personality(ADDR_NO_RANDOMIZE)) | judge("32 bit", personality(PER_LINUX32)) |
           judge("exec on read", personality(READ_IMPLIES_EXEC));
}
static int real_time(void) {
    struct sched_param high = {.sched_priority = 1};
    return judge("fifo", sched_setscheduler(0, SCHED_FIFO, &high)) | judge("rr", sched_setscheduler(0, SCHED_RR, &high)) |
           judge("nice", setpriority(PRIO_PROCESS, 0, -20));
}
static int lock_memory(void) {
    static char much[1 << 20];
    return judge("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE)) | judge("mlock", mlock(much, sizeof much));
}
static int raise_limits(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    return judge("nofile", setrlimit(RLIMIT_NOFILE, &all)) | judge("core", setrlimit(RLIMIT_CORE, &all)) |
           judge("memlock", setrlimit(RLIMIT_MEMLOCK, &all)) | judge("rtprio", setrlimit(RLIMIT_RTPRIO, &all));
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"trace_me", trace_me}, {"trace_child", trace_child}, {"trace_init", trace_init},
        {"trace_outside", trace_outside}, {"read_memory", read_memory}, {"steal_descriptor", steal_descriptor},
        {"kill_everybody", kill_everybody}, {"signal_outside", signal_outside}, {"kill_init", kill_init},
        {"limit_init", limit_init}, {"reach_init", reach_init}, {"outlive", outlive}, {"many_orphans", many_orphans},
        {"become_root", become_root}, {"gain_capabilities", gain_capabilities},
        {"status_of_rights", status_of_rights}, {"lift_filter", lift_filter}, {"prctl_games", prctl_games},
        {"change_personality", change_personality}, {"real_time", real_time}, {"lock_memory", lock_memory},
        {"raise_limits", raise_limits}, {"stop_outside", stop_outside},
        {"stop_siblings", stop_siblings}, {"slow_everybody", slow_everybody}, {"new_process_calls", new_process_calls},
        {"execute_in_memory", execute_in_memory}, {"become_dumpable", become_dumpable},
        {"sibling_of_the_first", sibling_of_the_first}, {0}});
}
