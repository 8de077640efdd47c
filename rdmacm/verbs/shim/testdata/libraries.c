/*
 * Libraries for the tests of package shim: the functions of libibverbs and librdmacm that the shim calls,
 * with one device that carries every address and moves no data. The test controls them by shared memory, a
 * file that SHIM_CONTROL names.
 *
 * On the thread `thread`, the call number `fail` of a function that can fail fails with `error`; calloc is
 * such a function, if this library is preloaded. The libraries count their objects, and end the program
 * if one is destroyed twice, or before an object that was made from it.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

static struct control {
	int32_t thread, fail, error, calls;
	int32_t objects; /* objects that exist */
	int32_t requests; /* a new listener gets so many connection requests */
	int32_t deaf; /* 1: epoll refuses the descriptors of channels, as it does at fs.epoll.max_user_watches */
	int32_t vectors; /* a bit for each completion vector that was used */
	int32_t opcode, length; /* of a completion that the next poll of a completion queue finds, if length is not 0 */
	int32_t disassociates; /* 1: RDMAV_ALLOW_DISASSOC_DESTROY was set when the library looked for devices */
} *control;

static int refuses(void)
{
	if (!control || control->thread != (int32_t)syscall(SYS_gettid) || ++control->calls != control->fail)
		return 0;
	errno = control->error;
	return 1;
}

static int channel_fd(int flags)
{
	if (refuses())
		return -1;
	return control->deaf ? open("/dev/null", O_RDWR | O_CLOEXEC) : eventfd(0, EFD_CLOEXEC | flags);
}

void *__libc_calloc(size_t, size_t);

#ifdef CALLOC
void *calloc(size_t n, size_t size) { return refuses() ? NULL : __libc_calloc(n, size); }
#endif

enum { ALIVE = 0x616c6976 };

/* An object is what the library keeps of each object, behind the part that the shim sees. */
struct object {
	int alive, users;
	struct object *of[3];
};

static void check(int holds, const char *text)
{
	if (!holds) {
		fprintf(stderr, "the shim %s\n", text);
		abort();
	}
}

static void made(struct object *o, struct object *a, struct object *b, struct object *c)
{
	o->alive = ALIVE;
	o->of[0] = a, o->of[1] = b, o->of[2] = c;
	for (int i = 0; i < 3; i++)
		if (o->of[i])
			__atomic_add_fetch(&o->of[i]->users, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&control->objects, 1, __ATOMIC_SEQ_CST);
}

static void destroyed(struct object *o)
{
	check(o->alive == ALIVE, "destroys an object twice");
	check(o->users == 0, "destroys an object before one that was made from it");
	o->alive = 0;
	for (int i = 0; i < 3; i++)
		if (o->of[i])
			__atomic_sub_fetch(&o->of[i]->users, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&control->objects, 1, __ATOMIC_SEQ_CST);
}

#define OBJECT(name, type)                                                                            \
	struct name { type it; struct object o; };                                                    \
	static struct name *new_##name(void)                                                          \
	{                                                                                             \
		struct name *made = malloc(sizeof *made);                                             \
		memset(made, 0, sizeof *made);                                                        \
		return made;                                                                          \
	}

OBJECT(event_channel, struct rdma_event_channel)
OBJECT(cm_id, struct rdma_cm_id)
OBJECT(pd, struct ibv_pd)
OBJECT(mr, struct ibv_mr)
OBJECT(comp_channel, struct ibv_comp_channel)
OBJECT(cq, struct ibv_cq)
OBJECT(qp, struct ibv_qp)
#define OF(p) (&(p)->o)

static struct ibv_device rnic = {.name = "stub0", .dev_name = "uverbs0", .transport_type = IBV_TRANSPORT_IB};
static struct ibv_context context;

static int notify(struct ibv_cq *q, int solicited) { return (void)q, (void)solicited, refuses() ? errno : 0; }

static int poll_queue(struct ibv_cq *q, int n, struct ibv_wc *wc)
{
	(void)q, (void)n;
	if (!control->length)
		return 0;
	memset(wc, 0, sizeof *wc);
	wc->opcode = control->opcode;
	wc->byte_len = control->length;
	control->length = 0;
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("SHIM_CONTROL");
	int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
	void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	check(at != MAP_FAILED, "is tested without SHIM_CONTROL");
	close(fd);
	control = at;
	context.device = &rnic;
	context.ops.req_notify_cq = notify;
	context.ops.poll_cq = poll_queue;
	context.cmd_fd = eventfd(0, EFD_CLOEXEC);
	context.async_fd = eventfd(0, EFD_CLOEXEC);
	context.num_comp_vectors = 4;
}

/* The connection manager. The descriptor of an event channel counts its events: they are all connection
 * requests at `listener`. */
static struct cm_id *listener;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	int fd = channel_fd(EFD_SEMAPHORE);
	const char *allowed = getenv("RDMAV_ALLOW_DISASSOC_DESTROY");
	static int looked;
	struct event_channel *c;

	/* librdmacm looks for devices when it makes its first channel; libibverbs reads the variable only then. */
	if (!looked)
		control->disassociates = allowed != NULL;
	looked = 1;
	if (fd < 0)
		return NULL;
	c = new_event_channel();
	c->it.fd = fd;
	made(OF(c), NULL, NULL, NULL);
	return &c->it;
}

void rdma_destroy_event_channel(struct rdma_event_channel *c)
{
	destroyed(OF((struct event_channel *)c));
	close(c->fd);
	free(c);
}

static struct rdma_cm_id *make_id(struct rdma_event_channel *c, void *of)
{
	struct cm_id *i = new_cm_id();

	i->it.channel = c;
	i->it.context = of;
	made(OF(i), OF((struct event_channel *)c), NULL, NULL);
	return &i->it;
}

int rdma_create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *of, enum rdma_port_space ps)
{
	(void)ps;
	if (refuses())
		return -1;
	*id = make_id(c, of);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cm_id *i = (struct cm_id *)id;

	check(!id->qp, "destroys an id that has a queue pair");
	destroyed(OF(i));
	if (listener == i)
		listener = NULL;
	free(i);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *at)
{
	if (refuses())
		return -1;
	memcpy(&id->route.addr.src_storage, at, sizeof(struct sockaddr_in));
	id->verbs = &context;
	id->port_num = 1;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	uint64_t n = control->requests;

	if (refuses())
		return -1;
	(void)backlog;
	listener = (struct cm_id *)id;
	return n && write(id->channel->fd, &n, sizeof n) < 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	return (void)from, (void)ms, rdma_bind_addr(id, to);
}

int rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event)
{
	struct rdma_cm_event *e;
	uint64_t n;

	if (refuses() || read(c->fd, &n, sizeof n) < 0)
		return -1;
	e = malloc(sizeof *e);
	memset(e, 0, sizeof *e);
	e->event = RDMA_CM_EVENT_CONNECT_REQUEST;
	e->listen_id = &listener->it;
	e->id = make_id(c, listener->it.context);
	e->id->verbs = &context;
	*event = e;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *e)
{
	free(e);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct qp *q;

	check(!id->qp, "makes two queue pairs for an id");
	if (refuses())
		return -1;
	q = new_qp();
	q->it.context = id->verbs;
	q->it.qp_context = a->qp_context;
	made(OF(q), OF((struct pd *)pd), OF((struct cq *)a->send_cq), OF((struct cq *)a->recv_cq));
	id->qp = &q->it;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *q)
{
	if (refuses())
		return errno;
	destroyed(OF((struct qp *)q));
	free(q);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	return (void)id, (void)level, (void)name, (void)value, (void)length, 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms) { return (void)id, (void)ms, refuses() ? -1 : 0; }
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p) { return (void)id, (void)p, refuses() ? -1 : 0; }
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p) { return (void)id, (void)p, refuses() ? -1 : 0; }
int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t n) { return (void)id, (void)data, (void)n, 0; }
int rdma_disconnect(struct rdma_cm_id *id) { return (void)id, 0; }
__be16 rdma_get_src_port(struct rdma_cm_id *id) { return id->route.addr.src_sin.sin_port; }

/* The device. */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct pd *d;

	if (refuses())
		return NULL;
	d = new_pd();
	d->it.context = ctx;
	made(OF(d), NULL, NULL, NULL);
	return &d->it;
}

int ibv_dealloc_pd(struct ibv_pd *d)
{
	if (refuses())
		return errno;
	destroyed(OF((struct pd *)d));
	free(d);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *d, void *at, size_t length, int access)
{
	struct mr *r;

	if (refuses())
		return NULL;
	r = new_mr();
	r->it.addr = at;
	r->it.length = length;
	r->it.lkey = r->it.rkey = (uint32_t)access;
	made(OF(r), OF((struct pd *)d), NULL, NULL);
	return &r->it;
}

int ibv_dereg_mr(struct ibv_mr *r)
{
	if (refuses())
		return errno;
	destroyed(OF((struct mr *)r));
	free(r);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	int fd = channel_fd(0);
	struct comp_channel *c;

	if (fd < 0)
		return NULL;
	c = new_comp_channel();
	c->it.context = ctx;
	c->it.fd = fd;
	made(OF(c), NULL, NULL, NULL);
	return &c->it;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	if (refuses())
		return errno;
	destroyed(OF((struct comp_channel *)c));
	close(c->fd);
	free(c);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *of, struct ibv_comp_channel *c, int vector)
{
	struct cq *q;

	if (refuses())
		return NULL;
	q = new_cq();
	q->it.context = ctx;
	q->it.channel = c;
	q->it.cq_context = of;
	q->it.cqe = n;
	check(vector < ctx->num_comp_vectors, "names a completion vector that does not exist");
	control->vectors |= 1 << vector;
	made(OF(q), OF((struct comp_channel *)c), NULL, NULL);
	return &q->it;
}

int ibv_destroy_cq(struct ibv_cq *q)
{
	if (refuses())
		return errno;
	destroyed(OF((struct cq *)q));
	free(q);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **q, void **of)
{
	return (void)c, (void)q, (void)of, errno = EAGAIN, -1;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	(void)ctx;
	if (refuses())
		return errno;
	memset(a, 0, sizeof *a);
	a->max_qp = a->max_cqe = a->max_qp_wr = 1024;
	a->max_sge = a->max_sge_rd = 4;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *at)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)at;

	(void)ctx;
	check(port == 1, "asks for a port that does not exist");
	if (refuses())
		return errno;
	a->state = IBV_PORT_ACTIVE;
	a->max_msg_sz = 1 << 30;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	return (void)ctx, (void)e, errno = EAGAIN, -1;
}

void ibv_ack_cq_events(struct ibv_cq *q, unsigned int n) { (void)q, (void)n; }
void ibv_ack_async_event(struct ibv_async_event *e) { (void)e; }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
