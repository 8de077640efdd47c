//go:build verbs

#ifndef OBJECTS_H
#define OBJECTS_H

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "libraries.h"
#include "shim.h"

/* destruction is held for reading while queues are destroyed, and for writing while asynchronous events are
 * taken: an event names its queue by address. */
extern pthread_rwlock_t destruction;

/* refusal returns -errno of a library's call that has failed, and never 0. */
static inline int refusal(void) { return errno > 0 ? -errno : -EIO; }

struct vb_channel {
	struct rdma_event_channel *channel;
	vb_event events[VB_EVENTS];
};

struct vb_id {
	struct rdma_cm_id *id;
	uint64_t number;
	bool named; /* the device still has a queue that names this id as its owner */
};

struct vb_domain {
	struct ibv_pd *pd;
};

struct vb_region {
	struct ibv_mr *mr;
};

struct vb_conn {
	vb_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends, *receives;
	atomic_int events; /* at most so many events are queued in channel */
	vb_work works[VB_FLUSH];
	vb_receive promised[VB_FLUSH];
	vb_completion completions[VB_COMPLETIONS];
};

#endif
