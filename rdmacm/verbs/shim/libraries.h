//go:build verbs

#ifndef LIBRARIES_H
#define LIBRARIES_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The functions of libibverbs and librdmacm, found by vb_load. The functions that the headers
 * define inline (ibv_post_send, ibv_poll_cq, ibv_req_notify_cq) need not be found. */
#define VERBS_FUNCTIONS(f)                                                                            \
	f(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *))                                      \
	f(int, ibv_dealloc_pd, (struct ibv_pd *))                                                     \
	f(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *, void *, size_t, int))                        \
	f(int, ibv_dereg_mr, (struct ibv_mr *))                                                       \
	f(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *))                 \
	f(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *))                                 \
	f(struct ibv_cq *, ibv_create_cq, (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	f(int, ibv_destroy_cq, (struct ibv_cq *))                                                     \
	f(int, ibv_destroy_qp, (struct ibv_qp *))                                                     \
	f(int, ibv_get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **))              \
	f(void, ibv_ack_cq_events, (struct ibv_cq *, unsigned int))                                   \
	f(int, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *))                    \
	f(int, ibv_query_port, (struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *))       \
	f(int, ibv_get_async_event, (struct ibv_context *, struct ibv_async_event *))                 \
	f(void, ibv_ack_async_event, (struct ibv_async_event *))                                      \
	f(const char *, ibv_get_device_name, (struct ibv_device *))

#define RDMACM_FUNCTIONS(f)                                                                           \
	f(struct rdma_event_channel *, rdma_create_event_channel, (void))                             \
	f(void, rdma_destroy_event_channel, (struct rdma_event_channel *))                            \
	f(int, rdma_create_id, (struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space)) \
	f(int, rdma_destroy_id, (struct rdma_cm_id *))                                                \
	f(int, rdma_bind_addr, (struct rdma_cm_id *, struct sockaddr *))                              \
	f(int, rdma_listen, (struct rdma_cm_id *, int))                                               \
	f(int, rdma_resolve_addr, (struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int))   \
	f(int, rdma_resolve_route, (struct rdma_cm_id *, int))                                        \
	f(int, rdma_create_qp, (struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *))     \
	f(int, rdma_connect, (struct rdma_cm_id *, struct rdma_conn_param *))                         \
	f(int, rdma_accept, (struct rdma_cm_id *, struct rdma_conn_param *))                          \
	f(int, rdma_reject, (struct rdma_cm_id *, const void *, uint8_t))                             \
	f(int, rdma_disconnect, (struct rdma_cm_id *))                                                \
	f(int, rdma_get_cm_event, (struct rdma_event_channel *, struct rdma_cm_event **))             \
	f(int, rdma_ack_cm_event, (struct rdma_cm_event *))                                           \
	f(int, rdma_set_option, (struct rdma_cm_id *, int, int, void *, size_t))                      \
	f(__be16, rdma_get_src_port, (struct rdma_cm_id *))

/* The headers define these two names as macros. */
#undef ibv_reg_mr
#undef ibv_query_port

#define MEMBER(result, name, arguments) result(*name) arguments;
struct libraries {
	int nothing; /* a descriptor of /dev/null, for vb_retire */
	VERBS_FUNCTIONS(MEMBER)
	RDMACM_FUNCTIONS(MEMBER)
};
#undef MEMBER

extern struct libraries lib;

#endif
