//go:build verbs

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

/* result converts the return value of a device's function to 0 or -errno: siw returns -1 and sets errno, other
 * devices return an errno. */
static int result(int r)
{
	if (r == -1)
		return refusal();
	return r > 0 ? -r : r;
}

int vb_domain_open(vb_id *i, vb_domain **made)
{
	vb_domain *d = calloc(1, sizeof *d);

	if (!d)
		return -ENOMEM;
	if (!(d->pd = lib.ibv_alloc_pd(i->id->verbs))) {
		int r = refusal();
		free(d);
		return r;
	}
	*made = d;
	return 0;
}

int vb_domain_close(vb_domain *d)
{
	int r = lib.ibv_dealloc_pd(d->pd);

	if (!r)
		free(d);
	return result(r);
}

int vb_register(vb_domain *d, uint64_t addr, uint64_t length, int access, vb_region **made, uint32_t keys[2])
{
	vb_region *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	if (!(r->mr = lib.ibv_reg_mr(d->pd, (void *)(uintptr_t)addr, length, access))) {
		int e = refusal();
		free(r);
		return e;
	}
	keys[0] = r->mr->lkey;
	keys[1] = r->mr->rkey;
	*made = r;
	return 0;
}

int vb_deregister(vb_region *r)
{
	int e = lib.ibv_dereg_mr(r->mr);

	if (!e)
		free(r);
	return result(e);
}

/* destroy_queues destroys what make_queues has made, the descriptor of the channel included. It stops at the
 * first object that is not destroyed, because those behind it are in use then. */
static int destroy_queues(vb_conn *c)
{
	struct rdma_cm_id *id = c->id->id;
	int r = 0;

	pthread_rwlock_rdlock(&destruction);
	/* rdma_destroy_qp would not tell whether the queue pair still exists. */
	if (id->qp && !(r = result(lib.ibv_destroy_qp(id->qp))))
		id->qp = NULL;
	if (!r && c->sends && !(r = result(lib.ibv_destroy_cq(c->sends))))
		c->sends = NULL;
	if (!r && c->receives && !(r = result(lib.ibv_destroy_cq(c->receives))))
		c->receives = NULL;
	if (!r && c->channel && !(r = result(lib.ibv_destroy_comp_channel(c->channel))))
		c->channel = NULL;
	pthread_rwlock_unlock(&destruction);
	c->id->named = id->qp || c->sends || c->receives;
	return r;
}

int vb_destroy_queues(vb_conn *c)
{
	if (c->channel)
		c->channel->fd = -1; /* the library would close the caller's descriptor */
	return destroy_queues(c);
}

/* arm makes the next completion of q queue an event. */
static int arm(vb_conn *c, struct ibv_cq *q)
{
	atomic_fetch_add(&c->events, 1);
	return ibv_req_notify_cq(q, 0);
}

/* take_events takes events from the channel, which queues one for each arm, at most. Each event costs a
 * system call, and so does finding none. So take_events usually takes one event and may leave one of
 * each completion queue: a queued event is harmless, because a later event wakes the poller all the
 * same, and each wake-up polls both queues. */
static void take_events(vb_conn *c)
{
	struct ibv_cq *q;
	void *context;
	int n;

	do {
		n = atomic_load(&c->events);
		if (lib.ibv_get_cq_event(c->channel, &q, &context)) {
			if (n > 2) /* each queue may be armed */
				atomic_fetch_sub(&c->events, n - 2);
			return;
		}
		lib.ibv_ack_cq_events(q, 1);
	} while (atomic_fetch_sub(&c->events, 1) > 3);
}

/* connections counts the connections that were begun. */
static atomic_uint connections;

/* make_queues makes the channel, the completion queues and the queue pair. If it fails, some exist. */
static int make_queues(vb_conn *c, vb_domain *d, const vb_caps *caps)
{
	vb_id *i = c->id;
	struct ibv_context *ctx = i->id->verbs;
	struct ibv_qp_init_attr q;
	/* By turns, so that the interrupts of a device are divided among the processors. */
	unsigned vector = atomic_fetch_add(&connections, 1) % (ctx->num_comp_vectors > 0 ? ctx->num_comp_vectors : 1);
	int fd;

	errno = 0; /* a driver may fail and leave it as it was */
	if (!(c->channel = lib.ibv_create_comp_channel(ctx)))
		return refusal();
	fd = c->channel->fd;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		return refusal();
	/* Each completion queue has room for every request, because after an error the requests that
	 * ask for no completion have one, too. */
	if (!(c->sends = lib.ibv_create_cq(ctx, caps->sends, i, c->channel, vector)) ||
	    !(c->receives = lib.ibv_create_cq(ctx, caps->receives, i, c->channel, vector)))
		return refusal();
	memset(&q, 0, sizeof q);
	q.qp_context = i; /* vb_async finds the id by it, as by the contexts of the queues */
	q.send_cq = c->sends;
	q.recv_cq = c->receives;
	q.qp_type = IBV_QPT_RC;
	q.cap.max_send_wr = caps->sends;
	q.cap.max_recv_wr = caps->receives;
	q.cap.max_send_sge = caps->sges;
	q.cap.max_recv_sge = 1;
	if (lib.rdma_create_qp(i->id, d->pd, &q))
		return refusal();
	return result(arm(c, c->receives));
}

int vb_create(vb_id *i, vb_domain *d, const vb_caps *caps, vb_conn **made, int *fd)
{
	vb_conn *c = calloc(1, sizeof *c);
	int r;

	if (!c)
		return -ENOMEM;
	c->id = i;
	if ((r = make_queues(c, d, caps))) {
		destroy_queues(c);
		i->id->qp = NULL; /* as in vb_destroy */
		free(c);
		return r;
	}
	*fd = c->channel->fd;
	*made = c;
	return 0;
}

void vb_destroy(vb_conn *c)
{
	vb_destroy_queues(c);
	c->id->id->qp = NULL; /* what could not be destroyed is left to the kernel */
	free(c);
}

vb_work *vb_works(vb_conn *c) { return c->works; }
vb_receive *vb_receives(vb_conn *c) { return c->promised; }
vb_completion *vb_completions(vb_conn *c) { return c->completions; }

static int post_receives(vb_conn *c, int n)
{
	struct ibv_recv_wr wr[VB_FLUSH], *bad;
	struct ibv_sge sge[VB_FLUSH];

	for (int i = 0; i < n; i++) {
		const vb_receive *r = &c->promised[i];

		sge[i] = (struct ibv_sge){r->at.addr, r->at.length, r->at.lkey};
		wr[i] = (struct ibv_recv_wr){r->wr_id, i + 1 < n ? &wr[i + 1] : 0, &sge[i], 1};
	}
	return result(ibv_post_recv(c->id->id->qp, wr, &bad));
}

static const enum ibv_wr_opcode opcodes[] = {
	[VB_WRITE] = IBV_WR_RDMA_WRITE,
	[VB_READ] = IBV_WR_RDMA_READ,
	[VB_SEND] = IBV_WR_SEND,
};

static int post_works(vb_conn *c, int n)
{
	struct ibv_send_wr wr[VB_FLUSH], *bad = 0;
	struct ibv_sge sge[VB_FLUSH][VB_SGES];

	for (int i = 0; i < n; i++) {
		const vb_work *w = &c->works[i];
		struct ibv_send_wr *o = &wr[i];

		for (int j = 0; j < w->sges; j++)
			sge[i][j] = (struct ibv_sge){w->sge[j].addr, w->sge[j].length, w->sge[j].lkey};
		memset(o, 0, sizeof *o);
		o->wr_id = w->wr_id;
		o->next = i + 1 < n ? o + 1 : 0;
		o->sg_list = sge[i];
		o->num_sge = w->sges;
		o->opcode = opcodes[w->op];
		o->send_flags = w->flags & VB_SIGNAL ? IBV_SEND_SIGNALED : 0;
		o->wr.rdma.remote_addr = w->remote;
		o->wr.rdma.rkey = w->rkey;
	}
	return result(ibv_post_send(c->id->id->qp, wr, &bad));
}

int vb_flush(vb_conn *c, bool arm_send, int receives, int works)
{
	int r = 0;

	if (arm_send)
		arm(c, c->sends);
	if (receives)
		r = post_receives(c, receives);
	if (!r && works)
		r = post_works(c, works);
	return r;
}

static int poll_queue(struct ibv_cq *q, vb_completion *out, int most, bool receives)
{
	struct ibv_wc wc[VB_COMPLETIONS];
	int n = ibv_poll_cq(q, most, wc);

	for (int i = 0; i < n; i++) {
		out[i].wr_id = wc[i].wr_id;
		out[i].status = wc[i].status;
		out[i].length = wc[i].status ? 0 : wc[i].byte_len;
		out[i].invalidated = !wc[i].status && wc[i].wc_flags & IBV_WC_WITH_INV ? wc[i].invalidated_rkey : 0;
		out[i].receive = !receives ? VB_WORK : wc[i].status || wc[i].opcode == IBV_WC_RECV ? VB_MESSAGE : VB_IMMEDIATE;
	}
	return n < 0 ? -EIO : n;
}

int vb_poll(vb_conn *c, int flags)
{
	int n, m;

	if (flags & VB_EVENT)
		take_events(c);
	if (flags & VB_ARM_RECEIVE && (n = arm(c, c->receives)))
		return result(n);
	if (flags & VB_ARM_SEND && (n = arm(c, c->sends)))
		return result(n);
	if ((n = poll_queue(c->receives, c->completions, VB_COMPLETIONS / 2, true)) < 0)
		return n;
	if ((m = poll_queue(c->sends, c->completions + n, VB_COMPLETIONS - n, false)) < 0)
		return m;
	return n + m;
}
