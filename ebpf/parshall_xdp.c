/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Decides, for each frame that arrives on an interface the router holds by AF_XDP, whether it is the
 * router's. The router's are frames for the interface's address, broadcast and multicast, or all when
 * it is promiscuous. The rest goes on to the kernel's own stack, and so does everything that arrives
 * on a queue without a socket, and the link-local group addresses of IEEE 802.1Q (clause 8.6.3: LLDP,
 * LACP, spanning tree), which a router does not speak.
 *
 * Includes nothing: what is used of linux/bpf.h and linux/if_ether.h is written out, so that the object
 * depends on this file and the compiler alone. `cargo xtask ebpf` compiles it.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))

/* enum bpf_map_type and enum xdp_action of linux/bpf.h */
enum { MAP_TYPE_ARRAY = 2, MAP_TYPE_XSKMAP = 17 };
enum { XDP_PASS = 2 };

/* struct xdp_md of linux/bpf.h, as far as it is used */
struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
};

/* What the loader makes maps of. It sets the number of entries of `sockets` to that of the queues. */
struct map {
	u32 type;
	u32 key_size;
	u32 value_size;
	u32 max_entries;
	u32 flags;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const redirect_map)(void *map, u64 key, u64 flags) = (void *)51;

/* What the router owns. Written by crates/drivers/src/af_xdp/program.rs. */
struct settings {
	u16 mac[3];
	u16 everything;
};

struct map SECTION("maps") settings = {
	.type = MAP_TYPE_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct settings),
	.max_entries = 1,
};

/* Sockets by receive queue. */
struct map SECTION("maps") sockets = {
	.type = MAP_TYPE_XSKMAP,
	.key_size = sizeof(u32),
	.value_size = sizeof(u32),
	.max_entries = 1,
};

/* 01-80-C2-00-00-00 to 01-80-C2-00-00-0F */
static int is_link_local_group(const u8 *to)
{
	return to[0] == 0x01 && to[1] == 0x80 && to[2] == 0xc2 && to[3] == 0 && to[4] == 0 && to[5] < 0x10;
}

static int is_ours(const struct settings *s, const u8 *to)
{
	const u16 *word = (const u16 *)to;

	if (s->everything)
		return 1;
	if (to[0] & 1)
		return !is_link_local_group(to);
	return word[0] == s->mac[0] && word[1] == s->mac[1] && word[2] == s->mac[2];
}

SECTION("xdp")
int parshall_xdp(struct xdp_md *ctx)
{
	const u8 *frame = (const u8 *)(unsigned long)ctx->data;
	const u8 *end = (const u8 *)(unsigned long)ctx->data_end;
	const struct settings *s;
	u32 first = 0;

	if (frame + 14 > end)
		return XDP_PASS;
	s = map_lookup(&settings, &first);
	if (!s || !is_ours(s, frame))
		return XDP_PASS;
	return redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

const char SECTION("license") terms[] = "Apache-2.0";
