//go:build verbs

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects.h"

static atomic_uint_fast64_t last_number;

/* quiet blocks all signals, and loud restores the signal mask. They enclose each command of the
 * connection manager, because siw's connect waits within write(2), and a signal would make the
 * library repeat the connect. */
static sigset_t quiet(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	return before;
}

static int loud(sigset_t before, int result)
{
	if (result)
		result = refusal();
	pthread_sigmask(SIG_SETMASK, &before, 0);
	return result;
}

int vb_channel_open(vb_channel **made, int *fd)
{
	vb_channel *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	if (!(c->channel = lib.rdma_create_event_channel())) {
		int r = refusal();
		free(c);
		return r;
	}
	*fd = c->channel->fd;
	fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) | O_NONBLOCK);
	*made = c;
	return 0;
}

void vb_channel_close(vb_channel *c)
{
	c->channel->fd = -1; /* the library would close the caller's descriptor */
	lib.rdma_destroy_event_channel(c->channel);
	free(c);
}

static vb_id *new_id(void)
{
	vb_id *i = calloc(1, sizeof *i);

	if (i)
		i->number = atomic_fetch_add(&last_number, 1) + 1;
	return i;
}

static uint8_t clip(int length) { return length > VB_DATA - 1 ? VB_DATA - 1 : length; }

/* describe copies an event. It returns 1, or 0 if there is no memory for the id of a connection request. */
static int describe(vb_event *out, struct rdma_cm_event *e)
{
	vb_id *i = e->id->context;
	const struct rdma_conn_param *p = &e->param.conn;

	memset(out, 0, sizeof *out);
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		vb_id *made = new_id();

		if (!made)
			return 0;
		out->listener = i->number;
		made->id = e->id;
		e->id->context = made;
		i = made;
	}
	out->id = i->number;
	out->handle = i;
	out->type = e->event;
	out->status = e->status;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		out->responder = p->responder_resources;
		out->initiator = p->initiator_depth;
		out->length = clip(p->private_data_len);
		if (p->private_data && out->length)
			memcpy(out->data, p->private_data, out->length);
		else
			out->length = 0;
	default:
		break;
	}
	memcpy(&out->local, &e->id->route.addr.src_storage, sizeof out->local);
	memcpy(&out->peer, &e->id->route.addr.dst_storage, sizeof out->peer);
	return 1;
}

int vb_events(vb_channel *c, vb_event **events)
{
	int n = 0;

	*events = c->events;
	while (n < VB_EVENTS) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		int told;

		if (lib.rdma_get_cm_event(c->channel, &e)) {
			if (n || errno == EAGAIN || errno == EINTR)
				return n;
			return refusal();
		}
		id = e->id;
		told = describe(&c->events[n], e);
		lib.rdma_ack_cm_event(e);
		if (!told)
			lib.rdma_destroy_id(id); /* refuses the peer; the caller does not learn of the id */
		n += told;
	}
	return n;
}

/* open_id makes an id that is not bound to an address yet. */
static int open_id(vb_channel *c, vb_id **made)
{
	vb_id *i = new_id();

	if (!i)
		return -ENOMEM;
	if (lib.rdma_create_id(c->channel, &i->id, i, RDMA_PS_TCP)) {
		int r = refusal();
		free(i);
		return r;
	}
	*made = i;
	return 0;
}

int vb_listen(vb_channel *c, const struct sockaddr *at, bool only_family, int backlog, vb_id **made)
{
	sigset_t before;
	vb_id *i;
	int r = open_id(c, &i), yes = 1;

	if (r)
		return r;
	before = quiet();
	lib.rdma_set_option(i->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes);
	if (only_family && (r = lib.rdma_set_option(i->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes)))
		goto out;
	if ((r = lib.rdma_bind_addr(i->id, (struct sockaddr *)at)))
		goto out;
	r = lib.rdma_listen(i->id, backlog);
out:
	if ((r = loud(before, r)))
		vb_id_close(i);
	else
		*made = i;
	return r;
}

int vb_resolve(vb_channel *c, const struct sockaddr *to, int ms, vb_id **made)
{
	sigset_t before;
	vb_id *i;
	int r = open_id(c, &i);

	if (r)
		return r;
	before = quiet();
	if ((r = loud(before, lib.rdma_resolve_addr(i->id, 0, (struct sockaddr *)to, ms))))
		vb_id_close(i);
	else
		*made = i;
	return r;
}

int vb_route(vb_id *i, int ms)
{
	sigset_t before = quiet();

	return loud(before, lib.rdma_resolve_route(i->id, ms));
}

int vb_reject(vb_id *i, const void *data, int length)
{
	sigset_t before = quiet();

	return loud(before, lib.rdma_reject(i->id, data, length));
}

void vb_id_close(vb_id *i)
{
	sigset_t before = quiet();

	lib.rdma_destroy_id(i->id);
	pthread_sigmask(SIG_SETMASK, &before, 0);
	if (!i->named)
		free(i);
}

uint64_t vb_number(vb_id *i) { return i->number; }

uint16_t vb_port(vb_id *i) { return be16toh(lib.rdma_get_src_port(i->id)); }

static int query_port(vb_id *i, int port, struct ibv_port_attr *p)
{
	int r;

	memset(p, 0, sizeof *p);
	r = lib.ibv_query_port(i->id->verbs, port, (struct _compat_ibv_port_attr *)p);
	return r > 0 ? -r : r ? refusal() : 0;
}

int vb_active(vb_id *i, int port)
{
	struct ibv_port_attr p;

	return !query_port(i, port, &p) && p.state == IBV_PORT_ACTIVE;
}

/* owner returns the number of the id whose connection the event is about, or 0. */
static uint64_t owner(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ((vb_id *)e->element.cq->cq_context)->number;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ((vb_id *)e->element.qp->qp_context)->number;
	default:
		return 0;
	}
}

int vb_async(vb_id *i, vb_async_event *events, int most)
{
	struct ibv_async_event e;
	int n = 0;

	pthread_rwlock_wrlock(&destruction);
	while (n < most && !lib.ibv_get_async_event(i->id->verbs, &e)) {
		events[n++] = (vb_async_event){owner(&e), e.event_type};
		lib.ibv_ack_async_event(&e);
	}
	pthread_rwlock_unlock(&destruction);
	return n;
}

int vb_attributes_of(vb_id *i, vb_attributes *a)
{
	struct ibv_context *ctx = i->id->verbs;
	struct ibv_device_attr d;
	struct ibv_port_attr p;
	int r;

	memset(a, 0, sizeof *a);
	if (!ctx)
		return -ENODEV;
	if ((r = lib.ibv_query_device(ctx, &d)))
		return r > 0 ? -r : refusal();
	a->port = i->id->port_num ? i->id->port_num : 1;
	if ((r = query_port(i, a->port, &p)))
		return r;
	strncpy(a->name, lib.ibv_get_device_name(ctx->device), sizeof a->name - 1);
	a->iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	a->max_qp = d.max_qp;
	a->max_qp_wr = d.max_qp_wr;
	a->max_sge = d.max_sge;
	a->max_sge_rd = d.max_sge_rd;
	a->max_cqe = d.max_cqe;
	a->max_qp_rd_atom = d.max_qp_rd_atom;
	a->max_qp_init_rd_atom = d.max_qp_init_rd_atom;
	a->max_message = p.max_msg_sz > INT32_MAX ? INT32_MAX : (int32_t)p.max_msg_sz;
	a->state = p.state;
	a->link_layer = p.link_layer;
	a->vendor = d.vendor_id;
	a->device = (uint64_t)(uintptr_t)ctx;
	snprintf(a->uverbs, sizeof a->uverbs, "%s", ctx->device->dev_name);
	return 0;
}

int vb_carrier(vb_channel *c, const struct sockaddr *at, vb_id **made, vb_attributes *a)
{
	sigset_t before;
	vb_id *i;
	int r = open_id(c, &i);

	if (r)
		return r;
	before = quiet();
	r = loud(before, lib.rdma_bind_addr(i->id, (struct sockaddr *)at));
	if (!r)
		r = vb_attributes_of(i, a);
	if (!r && fcntl(i->id->verbs->async_fd, F_SETFL, fcntl(i->id->verbs->async_fd, F_GETFL) | O_NONBLOCK))
		r = refusal();
	if (r)
		vb_id_close(i);
	else
		*made = i;
	return r;
}

/* The kernel does not complete the removal of a device while this process has descriptors of it.
 * librdmacm does not close the descriptors of the last device that it knows. So vb_retire replaces
 * them by a descriptor that cannot be written to. */
void vb_retire(vb_id *i)
{
	struct ibv_context *ctx = i->id->verbs;

	dup3(lib.nothing, ctx->cmd_fd, O_CLOEXEC);
	dup3(lib.nothing, ctx->async_fd, O_CLOEXEC);
	vb_id_close(i);
}

static struct rdma_conn_param conn_param(const vb_param *p)
{
	return (struct rdma_conn_param){
		.private_data = p->data,
		.private_data_len = p->length,
		.responder_resources = p->responder,
		.initiator_depth = p->initiator,
		.retry_count = 7,
		.rnr_retry_count = 0, /* a Send without a posted receive fails at once */
	};
}

int vb_accept(vb_conn *c, const vb_param *p)
{
	struct rdma_conn_param param = conn_param(p);
	sigset_t before = quiet();

	return loud(before, lib.rdma_accept(c->id->id, &param));
}

int vb_connect(vb_conn *c, const vb_param *p)
{
	struct rdma_conn_param param = conn_param(p);
	sigset_t before = quiet();

	return loud(before, lib.rdma_connect(c->id->id, &param));
}

int vb_disconnect(vb_conn *c)
{
	sigset_t before = quiet();

	return loud(before, lib.rdma_disconnect(c->id->id));
}
