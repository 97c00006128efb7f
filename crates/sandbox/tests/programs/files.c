/* Reaches for files of the machine. Target 0 is a file outside that everybody may read. */
#include "attack.h"
#include <dirent.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>

static int read_passwd(void) { return can_open("/etc/passwd", O_RDONLY); }
static int read_shadow(void) { return can_open("/etc/shadow", O_RDONLY); }
static int read_root_home(void) { return can_open("/root", O_RDONLY | O_DIRECTORY); }
static int read_canary(void) { return can_open(targets[0], O_RDONLY); }
static int write_canary(void) { return can_open(targets[0], O_WRONLY); }
static int read_init_environ(void) { return can_read("/proc/1/environ"); }
static int read_init_memory(void) { return can_open("/proc/1/mem", O_RDONLY); }
static int read_init_maps(void) { return can_read("/proc/1/maps"); }
static int list_init_descriptors(void) { return can_open("/proc/1/fd", O_RDONLY | O_DIRECTORY); }

static int through(const char *root) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, targets[0]);
    return can_open(path, O_RDONLY);
}
static int through_own_root(void) { return through("/proc/self/root"); }
static int through_init_root(void) { return through("/proc/1/root"); }
static int through_init_cwd(void) { return through("/proc/1/cwd/../../../../.."); }
static int through_dots(void) { return through("../../../../../../../../.."); }
static int through_own_file(void) { return through("/proc/self/exe/../../../../.."); }
static int through_stdin(void) { return through("/proc/self/fd/0/../../../.."); }

static int through_symlink(void) {
    if (symlink(targets[0], "/tmp/link")) return 1;
    return can_open("/tmp/link", O_RDONLY);
}
static int through_directory_symlink(void) {
    if (symlink("/proc/1/root", "/tmp/root")) return 1;
    return through("/tmp/root");
}
static int through_hard_link(void) { return judge("link", link(targets[0], "/tmp/hard")); }

static int open_by_handle(void) {
    struct { struct file_handle handle; char bytes[128]; } it = {{128, 0}, {0}};
    int mount_id, bad = judge("name_to_handle_at", name_to_handle_at(AT_FDCWD, "/", &it.handle, &mount_id, 0));
    /* Inode 2 is the root of an ext4 file system; 1 of others. */
    it.handle.handle_bytes = 8;
    it.handle.handle_type = 1;
    memcpy(it.handle.f_handle, "\x02\0\0\0\0\0\0\0", 8);
    int root = open("/dev/null", O_RDONLY);
    return bad | judge("open_by_handle_at", open_by_handle_at(root, &it.handle, O_RDONLY));
}

static int inherited_descriptors(void) {
    int bad = 0;
    for (int fd = 3; fd < 4096; fd++)
        if (fcntl(fd, F_GETFD) != -1) {
            printf("ESCAPED: descriptor %d is open\n", fd);
            bad = 1;
        }
    struct stat stat;
    for (int fd = 0; fd < 3; fd++)
        if (fstat(fd, &stat) || S_ISDIR(stat.st_mode) || S_ISSOCK(stat.st_mode)) bad = 1;
    return bad;
}

static int write_root(void) { return judge("/escaped", open("/escaped", O_CREAT | O_WRONLY, 0600)); }
static int make_root_folder(void) { return judge("mkdir", mkdir("/folder", 0700)); }
static int write_dev(void) { return judge("/dev/escaped", open("/dev/escaped", O_CREAT | O_WRONLY, 0600)); }
static int change_dev_null(void) { return judge("chmod /dev/null", chmod("/dev/null", 0)); }
static int replace_dev_null(void) { return judge("unlink /dev/null", unlink("/dev/null")); }

static int write_own_text(void) {
    int fd = open("/proc/self/exe", O_RDWR);
    if (fd < 0) return judge("/proc/self/exe", fd);
    return judge("write", pwrite(fd, "x", 1, 0)) | judge("ftruncate", ftruncate(fd, 0));
}
static int spoil_own_file(void) {
    /* All jobs of a program share one file. Its owner may be the user we are; older kernels cannot seal its rights. */
    struct utsname machine;
    int major = 0, minor = 0;
    uname(&machine);
    sscanf(machine.release, "%d.%d", &major, &minor);
    int fd = open("/proc/self/exe", O_RDONLY);
    if (major * 100 + minor < 603) return printf("skipped: F_SEAL_EXEC needs Linux 6.3\n"), 0;
    return judge("fchmod", fchmod(fd, 0)) | judge("fchown", fchown(fd, 0, 0));
}
static int write_stdin(void) {
    int fd = open("/proc/self/fd/0", O_RDWR);
    return judge("/proc/self/fd/0", fd < 0 ? fd : pwrite(fd, "x", 1, 0));
}

static int device_memory(void) { return can_open("/dev/mem", O_RDONLY) | can_open("/dev/kmem", O_RDONLY); }
static int device_log(void) { return can_open("/dev/kmsg", O_RDONLY); }
static int device_disks(void) {
    return can_open("/dev/vda", O_RDONLY) | can_open("/dev/sda", O_RDONLY) | can_open("/dev/kvm", O_RDWR) |
           can_open("/dev/fuse", O_RDWR) | can_open("/dev/net/tun", O_RDWR) | can_open("/dev/tty", O_RDWR);
}
static int make_device(void) {
    return judge("mknod null", mknod("/tmp/null", S_IFCHR | 0666, makedev(1, 3))) |
           judge("mknod disk", mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)));
}
static int sysfs(void) { return can_open("/sys", O_RDONLY | O_DIRECTORY) | can_open("/sys/kernel/uevent_helper", O_WRONLY); }
static int release_agent(void) {
    return can_open("/sys/fs/cgroup/release_agent", O_WRONLY) |
           can_open("/sys/fs/cgroup/memory/release_agent", O_WRONLY) |
           can_open("/sys/fs/cgroup/cgroup.procs", O_WRONLY);
}
static int proc_sys(void) {
    return can_open("/proc/sys/kernel/core_pattern", O_WRONLY) | can_open("/proc/sys/kernel/hostname", O_WRONLY) |
           can_open("/proc/sysrq-trigger", O_WRONLY) | can_open("/proc/kcore", O_RDONLY) |
           can_open("/proc/kallsyms", O_RDONLY) | can_open("/proc/meminfo", O_RDONLY) | can_open("/proc/keys", O_RDONLY);
}
static int write_proc_self(void) {
    return can_open("/proc/self/oom_score_adj", O_WRONLY) | can_open("/proc/self/mem", O_RDWR) |
           can_open("/proc/self/uid_map", O_WRONLY) | can_open("/proc/self/attr/current", O_WRONLY);
}

static int listed(const char *path, const char *allowed) {
    int bad = 0;
    DIR *folder = opendir(path);
    if (!folder) return 1;
    for (struct dirent *each; (each = readdir(folder));) {
        char name[300];
        snprintf(name, sizeof name, " %s ", each->d_name);
        if (!strstr(allowed, name)) {
            printf("ESCAPED: %s is in %s\n", each->d_name, path);
            bad = 1;
        }
    }
    return bad;
}
static int list_root(void) { return listed("/", " . .. dev proc tmp "); }
static int list_dev(void) {
    return listed("/dev", " . .. null zero full random urandom fd stdin stdout stderr shm ");
}
static int list_mounts(void) {
    /* Number, parent, device, root, mount point. Each of ours once, and no other. */
    const char *ours[] = {"/", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/tmp", "/proc"};
    int bad = 0, seen[8] = {0};
    char line[1024], point[512];
    FILE *mounts = fopen("/proc/self/mountinfo", "r");
    while (mounts && fgets(line, sizeof line, mounts)) {
        int known = 0;
        if (sscanf(line, "%*s %*s %*s %*s %511s", point) != 1) return 1;
        for (int i = 0; i < 8; i++)
            if (!strcmp(point, ours[i])) known = !seen[i]++;
        if (!known) {
            printf("ESCAPED: %s", line);
            bad = 1;
        }
    }
    return bad | !seen[0];
}
/* The first leaves something, the second looks for it in a run of its own. */
static int leave_shared_memory(void) {
    int fd = shm_open("/left", O_CREAT | O_RDWR, 0600);
    return fd < 0 || ftruncate(fd, 4096) || open("/tmp/left-too", O_CREAT | O_WRONLY, 0600) < 0;
}
static int find_shared_memory(void) { return listed("/tmp", " . .. "); }
static int own_groups(void) {
    return can_open("/proc/self/root/sys/fs/cgroup", O_RDONLY | O_DIRECTORY) | can_open("/sys/fs/cgroup/pids/tasks", O_WRONLY) |
           can_open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY);
}
static int list_processes(void) {
    int bad = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *each; folder && (each = readdir(folder));)
        if (atoi(each->d_name) > 2) bad = 1;
    return bad;
}

static int execute_written(void) {
    char bytes[4096];
    int from = open("/proc/self/exe", O_RDONLY), to = open("/tmp/copy", O_CREAT | O_WRONLY, 0700);
    if (from < 0 || to < 0) return 1;
    for (ssize_t len; (len = read(from, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, len) != len) return 1;
    close(to);
    /* If it works, the copy exits with ESCAPED. */
    char *args[] = {"copy", "escaped", NULL};
    return judge("execve", execve("/tmp/copy", args, NULL));
}
static int escaped(void) { return 1; }

static int host_sockets(void) {
    const char *paths[] = {"/run/docker.sock", "/var/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket"};
    int bad = 0, fd = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int i = 0; i < 4; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strcpy(address.sun_path, paths[i]);
        bad |= judge(paths[i], connect(fd, (void *)&address, sizeof address));
    }
    return bad;
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"read_passwd", read_passwd}, {"read_shadow", read_shadow}, {"read_root_home", read_root_home},
        {"read_canary", read_canary}, {"write_canary", write_canary}, {"read_init_environ", read_init_environ},
        {"read_init_memory", read_init_memory}, {"read_init_maps", read_init_maps},
        {"list_init_descriptors", list_init_descriptors}, {"through_own_root", through_own_root},
        {"through_init_root", through_init_root}, {"through_init_cwd", through_init_cwd},
        {"through_dots", through_dots}, {"through_own_file", through_own_file}, {"through_stdin", through_stdin},
        {"through_symlink", through_symlink}, {"through_directory_symlink", through_directory_symlink},
        {"through_hard_link", through_hard_link}, {"open_by_handle", open_by_handle},
        {"inherited_descriptors", inherited_descriptors}, {"write_root", write_root},
        {"make_root_folder", make_root_folder}, {"write_dev", write_dev}, {"change_dev_null", change_dev_null},
        {"replace_dev_null", replace_dev_null}, {"write_own_text", write_own_text}, {"write_stdin", write_stdin},
        {"device_memory", device_memory}, {"device_log", device_log}, {"device_disks", device_disks},
        {"make_device", make_device}, {"sysfs", sysfs}, {"release_agent", release_agent}, {"proc_sys", proc_sys},
        {"write_proc_self", write_proc_self}, {"list_root", list_root}, {"list_dev", list_dev},
        {"list_processes", list_processes}, {"list_mounts", list_mounts}, {"execute_written", execute_written}, {"escaped", escaped},
        {"host_sockets", host_sockets}, {"spoil_own_file", spoil_own_file},
        {"leave_shared_memory", leave_shared_memory}, {"find_shared_memory", find_shared_memory}, {"own_groups", own_groups}, {0}});
}
