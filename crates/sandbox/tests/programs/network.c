/* Reaches for other machines and for services of this one. Target 2 is a port that listens on
 * loopback outside, target 3 the name of an abstract socket outside, target 4 an address elsewhere. */
#include "attack.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in it = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &it.sin_addr);
    return it;
}
static int connect_to(const char *ip, int port) {
    struct sockaddr_in to = address(ip, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval second = {1, 0};
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    return judge(ip, fd < 0 ? fd : connect(fd, (void *)&to, sizeof to));
}
static int send_to(const char *ip, int port) {
    struct sockaddr_in to = address(ip, port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return judge(ip, fd < 0 ? fd : sendto(fd, "x", 1, 0, (void *)&to, sizeof to));
}
static int tcp_loopback(void) { return connect_to("127.0.0.1", atoi(targets[2])); }
static int tcp_any(void) { return connect_to("0.0.0.0", atoi(targets[2])); }
static int tcp_metadata(void) { return connect_to("169.254.169.254", 80); }
static int udp_loopback(void) { return send_to("127.0.0.1", atoi(targets[2])); }
static int udp_dns(void) { return send_to("1.1.1.1", 53) | send_to("127.0.0.53", 53); }
static int listen_anywhere(void) {
    struct sockaddr_in at = address("0.0.0.0", 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return judge("listen", fd < 0 ? fd : bind(fd, (void *)&at, sizeof at) || listen(fd, 1) ? -1 : 0);
}
static int version_6(void) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(targets[2])), .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    return judge("::1", fd < 0 ? fd : connect(fd, (void *)&to, sizeof to));
}
/* Every spelling of loopback, by TCP. */
static int tcp_all_loopback(void) {
    int bad = 0;
    const char *addresses[] = {"127.0.0.1", "127.9.9.9", "0.0.0.0"};
    for (int i = 0; i < 3; i++) bad |= connect_to(addresses[i], atoi(targets[2]));
    const char *addresses_6[] = {"::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"};
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(targets[2]))};
        inet_pton(AF_INET6, addresses_6[i], &to.sin6_addr);
        int fd = socket(AF_INET6, SOCK_STREAM, 0);
        struct timeval second = {1, 0};
        if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
        bad |= judge(addresses_6[i], fd < 0 ? fd : connect(fd, (void *)&to, sizeof to));
    }
    struct sockaddr_in at = address("127.0.0.1", 0), to = address("127.0.0.1", atoi(targets[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval second = {1, 0};
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    return bad | judge("from loopback", fd < 0 || bind(fd, (void *)&at, sizeof at) ? -1 : connect(fd, (void *)&to, sizeof to));
}
/* A packet that is sent may still arrive nowhere: whoever listens there knows. */
static int udp_all_loopback(void) {
    const char *addresses[] = {"127.0.0.1", "127.9.9.9", "0.0.0.0"};
    for (int i = 0; i < 3; i++) send_to(addresses[i], atoi(targets[2]));
    struct sockaddr_in to = address("127.0.0.1", atoi(targets[2]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && !connect(fd, (void *)&to, sizeof to)) write(fd, "x", 1);
    if (fd >= 0) sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&to, sizeof to);
    return 0;
}
/* The first device of a machine is its loopback. */
static int name_another_device(void) {
    struct sockaddr_in to = address("127.0.0.1", atoi(targets[2]));
    struct in_pktinfo loopback = {.ipi_ifindex = 1};
    union { char space[CMSG_SPACE(sizeof loopback)]; struct cmsghdr head; } control = {0};
    struct iovec one = {"x", 1};
    struct mmsghdr messages[1] = {{.msg_hdr = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &one, .msg_iovlen = 1,
                                               .msg_control = &control, .msg_controllen = sizeof control}}};
    control.head = (struct cmsghdr){.cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO, .cmsg_len = CMSG_LEN(sizeof loopback)};
    memcpy(CMSG_DATA(&control.head), &loopback, sizeof loopback);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), first = 1;
    return judge("sendmsg", fd < 0 ? fd : sendmsg(fd, &messages[0].msg_hdr, 0)) |
           judge("sendmmsg", fd < 0 ? fd : sendmmsg(fd, messages, 1, 0)) |
           judge("bind to lo", fd < 0 ? fd : setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3)) |
           judge("bind to none", fd < 0 ? fd : setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 0)) |
           judge("bind to 1", fd < 0 ? fd : setsockopt(fd, SOL_SOCKET, 62, &first, sizeof first));
}
/* Somewhere else: target 4 is its address, target 2 its port. */
static int far_away(void) {
    return connect_to(targets[4], atoi(targets[2])) | send_to(targets[4], atoi(targets[2]));
}
static int raw(void) {
    return judge("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)) | judge("raw 6", socket(AF_INET6, SOCK_RAW, IPPROTO_TCP)) |
           judge("ping", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
}
static int packet(void) { return judge("packet", socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL))); }
static int netlink(void) {
    return judge("route", socket(AF_NETLINK, SOCK_RAW, 0)) | judge("audit", socket(AF_NETLINK, SOCK_RAW, 9)) |
           judge("uevent", socket(AF_NETLINK, SOCK_RAW, 15));
}
static int vsock(void) { return judge("vsock", socket(40, SOCK_STREAM, 0)); }
static int rare_families(void) {
    int bad = 0;
    for (int family = 0; family < 50; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
            for (int kind = 1; kind < 6; kind++) {
                int fd = socket(family, kind, 0);
                if (fd >= 0) { printf("ESCAPED: family %d\n", family); bad = 1; }
            }
    return bad;
}
static int rare_protocols(void) {
    return judge("sctp", socket(AF_INET, SOCK_SEQPACKET, 132)) | judge("dccp", socket(AF_INET, 6, 33)) |
           judge("mptcp", socket(AF_INET, SOCK_STREAM, 262)) | judge("udplite", socket(AF_INET, SOCK_DGRAM, 136));
}
static int abstract_socket(void) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path + 1, targets[3]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return judge("abstract", fd < 0 ? fd : connect(fd, (void *)&to, sizeof(sa_family_t) + 1 + strlen(targets[3])));
}
static int forge_credentials(void) {
    struct ucred root = {.pid = 1, .uid = 0, .gid = 0};
    union { char space[CMSG_SPACE(sizeof root)]; struct cmsghdr head; } control = {0};
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof root)};
    memcpy(CMSG_DATA(&control.head), &root, sizeof root);
    int both[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, both)) return 1;
    return judge("sendmsg", sendmsg(both[0], &message, 0));
}
static int interfaces(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return judge("bring up lo", ioctl(fd, SIOCSIFFLAGS, &request));
}

int main(int argc, char **argv) {
    return choose(argc, argv, (struct attack[]){
        {"tcp_loopback", tcp_loopback}, {"tcp_any", tcp_any}, {"tcp_metadata", tcp_metadata},
        {"udp_loopback", udp_loopback}, {"udp_dns", udp_dns}, {"listen_anywhere", listen_anywhere},
        {"version_6", version_6}, {"tcp_all_loopback", tcp_all_loopback}, {"udp_all_loopback", udp_all_loopback},
        {"name_another_device", name_another_device}, {"far_away", far_away}, {"raw", raw}, {"packet", packet}, {"netlink", netlink}, {"vsock", vsock},
        {"rare_families", rare_families}, {"rare_protocols", rare_protocols}, {"abstract_socket", abstract_socket},
        {"interfaces", interfaces}, {"forge_credentials", forge_credentials}, {0}});
}
