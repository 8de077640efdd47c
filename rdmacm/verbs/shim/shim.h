//go:build verbs

/*
 * The calls of librdmacm and libibverbs that the provider needs, combined so that one call
 * does much. A negative result is -errno. vb_flush and vb_poll never sleep. The calls of the
 * connection manager may sleep. The shim stores no pointer to Go's memory: works, receives,
 * completions and events lie in memory that the shim allocates.
 *
 * Who owns what: a function that makes an object stores it through its last pointers and returns 0.
 * From then on the object is the caller's, until the caller passes it to the function that closes it. A
 * function that fails stores nothing, has freed all that it had made, and leaves its arguments as they
 * were: they are still the caller's. Only the functions named ..._close, ..._deregister, ..._retire
 * and ..._destroy take an argument away from the caller. An object must be closed before the objects
 * that it was made from: a connection before its id and its domain, a region before its domain,
 * an id before its channel.
 *
 * A descriptor that is stored in an int *fd is the caller's, too. The caller closes it, and the function
 * that closes the object leaves it open. So Go's poller needs no duplicate.
 */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { VB_SGES = 8, VB_FLUSH = 64, VB_COMPLETIONS = 64, VB_EVENTS = 16, VB_ASYNC = 16, VB_DATA = 256 };

typedef struct vb_channel vb_channel;
typedef struct vb_id vb_id;
typedef struct vb_domain vb_domain;
typedef struct vb_conn vb_conn;
typedef struct vb_region vb_region;

typedef struct { uint64_t addr; uint32_t length, lkey; } vb_sge;

/* Kinds and flags of vb_work. */
enum { VB_WRITE = 1, VB_READ, VB_SEND };
enum { VB_SIGNAL = 1 };

typedef struct {
	uint64_t wr_id, remote;
	uint32_t rkey;
	uint8_t op, flags;
	uint16_t sges;
	vb_sge sge[VB_SGES];
} vb_work;

typedef struct { uint64_t wr_id; vb_sge at; } vb_receive;

typedef struct {
	uint64_t wr_id;
	uint32_t status, length, invalidated, receive;
} vb_completion;

/* The field receive: a work, a message, or an RDMA Write with immediate data, which also takes a receive. */
enum { VB_WORK, VB_MESSAGE, VB_IMMEDIATE };

/* Flags of vb_poll: the steps that it takes before it polls. */
enum { VB_EVENT = 1, VB_ARM_RECEIVE = 2, VB_ARM_SEND = 4 };

typedef struct {
	uint64_t id, listener; /* numbers of ids; listener is 0 except in a connection request */
	vb_id *handle;         /* the new id that a connection request makes */
	int32_t type, status;
	uint8_t responder, initiator, length, unused[5];
	uint8_t data[VB_DATA];
	struct sockaddr_storage local, peer;
} vb_event;

typedef struct {
	uint64_t id; /* number of the id whose queue pair or completion queue failed; 0: the event is about the device */
	int32_t type;
} vb_async_event;

typedef struct {
	char name[64];
	int32_t iwarp; /* the transport is iWARP */
	int32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_cqe;
	int32_t max_qp_rd_atom, max_qp_init_rd_atom, max_message, state, link_layer;
	int32_t vendor, port; /* the port of the id, counted from 1 */
	uint64_t device; /* a different number for each device */
	char uverbs[64]; /* its name in /sys/class/infiniband_verbs */
} vb_attributes;

typedef struct {
	uint32_t sends, receives, sges;
} vb_caps;

typedef struct {
	uint8_t data[VB_DATA]; /* length bytes of it are the private data */
	uint8_t length, responder, initiator;
} vb_param;

/* vb_load opens the libraries. It returns NULL, or the name of the missing library or function. */
const char *vb_load(void);

int vb_channel_open(vb_channel **, int *fd);
void vb_channel_close(vb_channel *);
/* vb_events takes, copies and acknowledges at most VB_EVENTS events. The array belongs to the channel, and
 * the ids in `handle` belong to the caller. */
int vb_events(vb_channel *, vb_event **);

int vb_listen(vb_channel *, const struct sockaddr *, bool only_family, int backlog, vb_id **);
int vb_resolve(vb_channel *, const struct sockaddr *, int ms, vb_id **);
int vb_route(vb_id *, int ms);
int vb_reject(vb_id *, const void *, int);
void vb_id_close(vb_id *); /* closes an id that has no connection */
uint64_t vb_number(vb_id *);
uint16_t vb_port(vb_id *);
int vb_attributes_of(vb_id *, vb_attributes *);
/* vb_carrier makes an id of the device that carries an address of this machine. It returns -ENODEV if no
 * device does. */
int vb_carrier(vb_channel *, const struct sockaddr *, vb_id **, vb_attributes *);
/* vb_async takes, copies and acknowledges asynchronous events of the device: `most` events at most. */
int vb_async(vb_id *, vb_async_event *, int most);
int vb_active(vb_id *, int port); /* returns 1 if the port of the device carries traffic */
void vb_retire(vb_id *); /* closes an id of vb_carrier, and the descriptors of its device */

int vb_domain_open(vb_id *, vb_domain **);
int vb_domain_close(vb_domain *); /* takes the domain away only if it succeeds; so does vb_deregister */
int vb_register(vb_domain *, uint64_t addr, uint64_t length, int access, vb_region **, uint32_t keys[2]);
int vb_deregister(vb_region *);

/* vb_create makes a completion channel, two completion queues and a queue pair for an id. */
int vb_create(vb_id *, vb_domain *, const vb_caps *, vb_conn **, int *fd);
vb_work *vb_works(vb_conn *);
vb_receive *vb_receives(vb_conn *);
vb_completion *vb_completions(vb_conn *);
int vb_accept(vb_conn *, const vb_param *);
int vb_connect(vb_conn *, const vb_param *);
/* vb_flush posts the first entries of the connection's arrays of receives and works.
 * If the device refuses one, vb_flush posts none of those behind it. */
int vb_flush(vb_conn *, bool arm_send, int receives, int works);
/* vb_poll stores completions, those of receives first, and returns their number. */
int vb_poll(vb_conn *, int flags);
int vb_disconnect(vb_conn *);
/* vb_destroy_queues destroys the queue pair, the completion queues and the channel, as far as they exist. If it
 * fails, the device may still use the queues. It may be called again. */
int vb_destroy_queues(vb_conn *);
void vb_destroy(vb_conn *); /* and what vb_destroy_queues would destroy */

#endif
