/* Tries to build a new world, or to get into another. */
#include "attack.h"
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

static int mount_tmpfs(void) { return judge("mount tmpfs", mount("t", "/tmp", "tmpfs", 0, NULL)); }
static int mount_proc(void) { return judge("mount proc", mount("p", "/proc", "proc", 0, NULL)); }
static int mount_cgroup(void) {
    mkdir("/tmp/c", 0700);
    return judge("mount cgroup", mount("c", "/tmp/c", "cgroup", 0, "memory")) |
           judge("mount cgroup2", mount("c", "/tmp/c", "cgroup2", 0, NULL));
}
static int mount_bind(void) { return judge("bind", mount("/proc", "/tmp", NULL, MS_BIND, NULL)); }
static int remount_root(void) { return judge("remount", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL)); }
static int unmount(void) {
    return judge("umount /proc", umount2("/proc", MNT_DETACH)) | judge("umount /tmp", umount2("/tmp", MNT_DETACH)) |
           judge("umount /", umount2("/", MNT_DETACH)) | judge("umount /dev/null", umount2("/dev/null", MNT_DETACH));
}
static int pivot(void) { return judge("pivot_root", syscall(SYS_pivot_root, ".", ".")); }
static int change_root(void) {
    mkdir("/tmp/c", 0700);
    return judge("chroot", chroot("/tmp/c"));
}
static int new_mount_calls(void) {
    return judge("fsopen", syscall(SYS_fsopen, "tmpfs", 0)) |
           judge("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1)) |
           judge("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/proc", 0)) |
           judge("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, NULL, 0));
}
static int unshare_user(void) { return judge("unshare user", unshare(CLONE_NEWUSER)); }
static int unshare_all(void) {
    int all[] = {CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_FS, 0};
    int bad = 0;
    for (int i = 0; i < 8; i++) bad |= judge("unshare", unshare(all[i]));
    return bad;
}
static int join_init(void) {
    int bad = judge("setns pidfd", setns(syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS | CLONE_NEWUSER));
    const char *names[] = {"user", "mnt", "pid", "net"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/1/ns/%s", names[i]);
        int fd = open(path, O_RDONLY);
        bad |= judge(path, fd < 0 ? fd : setns(fd, 0));
    }
    return bad;
}
static int clone_flags(void) {
    int flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUSER | CLONE_NEWNET};
    int bad = 0;
    for (int i = 0; i < 5; i++) {
        long pid = syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) _exit(0);
        bad |= judge("clone", pid);
    }
    return bad;
}
static int clone3_flags(void) {
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) _exit(0);
    return judge("clone3", pid);
}
static int host_name(void) {
    return judge("sethostname", sethostname("escaped", 7)) | judge("setdomainname", setdomainname("escaped", 7));
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"mount_tmpfs", mount_tmpfs}, {"mount_proc", mount_proc}, {"mount_cgroup", mount_cgroup},
        {"mount_bind", mount_bind}, {"remount_root", remount_root}, {"unmount", unmount}, {"pivot", pivot},
        {"change_root", change_root}, {"new_mount_calls", new_mount_calls}, {"unshare_user", unshare_user},
        {"unshare_all", unshare_all}, {"join_init", join_init}, {"clone_flags", clone_flags},
        {"clone3_flags", clone3_flags}, {"host_name", host_name}, {0}});
}
