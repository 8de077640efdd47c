//go:build verbs

package shim

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl -lpthread
#cgo noescape vb_flush
#cgo nocallback vb_flush
#cgo noescape vb_poll
#cgo nocallback vb_poll
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// These lines compile only if the structs of C and of package device have the same sizes.
var (
	_ [unsafe.Sizeof(C.vb_work{}) - unsafe.Sizeof(device.Work{})]struct{}
	_ [unsafe.Sizeof(device.Work{}) - unsafe.Sizeof(C.vb_work{})]struct{}
	_ [unsafe.Sizeof(C.vb_receive{}) - unsafe.Sizeof(device.Receive{})]struct{}
	_ [unsafe.Sizeof(device.Receive{}) - unsafe.Sizeof(C.vb_receive{})]struct{}
	_ [unsafe.Sizeof(C.vb_completion{}) - unsafe.Sizeof(device.Completion{})]struct{}
	_ [unsafe.Sizeof(device.Completion{}) - unsafe.Sizeof(C.vb_completion{})]struct{}
)

// A MissingError means that a library, or a function of one, is not on this machine.
type MissingError struct{ Name string }

func (e *MissingError) Error() string {
	return e.Name + " is missing: apt-get install libibverbs1 librdmacm1 ibverbs-providers"
}

type library struct{}

// Load opens librdmacm and libibverbs. Its error is a *MissingError.
func Load() (device.Library, error) {
	if name := C.vb_load(); name != nil {
		return nil, &MissingError{C.GoString(name)}
	}
	return library{}, nil
}

// failed returns the error of the function named what, whose result is r: 0 or a negative errno.
func failed(what string, r C.int) error {
	if r == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, syscall.Errno(-r))
}

func (library) Open() (device.Channel, error) {
	c := &channel{}
	var fd C.int
	if r := C.vb_channel_open(&c.c, &fd); r != 0 {
		return nil, failed("rdma_create_event_channel", r)
	}
	var err error
	if c.file, err = pollable(fd); err != nil {
		C.vb_channel_close(c.c)
		return nil, err
	}
	return c, nil
}

// pollable returns a File that Go's runtime polls. The File owns fd, a descriptor that C has handed
// over. If the runtime cannot poll fd, pollable closes it.
func pollable(fd C.int) (*os.File, error) {
	f := os.NewFile(uintptr(fd), "rdma")
	// NewFile keeps silent if epoll refuses a descriptor, as it does at the limit of fs.epoll.max_user_watches,
	// which all processes of a user share. Such a File has no deadlines.
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		err = refusal(int(fd))
		f.Close()
		return nil, fmt.Errorf("cannot wait for a descriptor, epoll_ctl: %w", err)
	}
	return f, nil
}

// refusal returns the error with which epoll refuses fd. The runtime does not tell it.
func refusal(fd int) error {
	e, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(e)
	if err = unix.EpollCtl(e, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err == nil {
		err = unix.EAGAIN // there is room again
	}
	return err
}

type channel struct {
	c      *C.vb_channel
	file   *os.File
	closed atomic.Bool
}

func (c *channel) Events(told func(device.Event)) error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Read(func(uintptr) bool {
		for {
			var events *C.vb_event
			n := C.vb_events(c.c, &events)
			if n == -C.int(unix.ENOMEM) {
				time.Sleep(memoryPause) // the event is still in the kernel, which does not announce it again
				continue
			}
			if n < 0 {
				failure = failed("rdma_get_cm_event", n)
				return true
			}
			if n == 0 {
				return false
			}
			for i := range unsafe.Slice(events, n) {
				told(event(&unsafe.Slice(events, n)[i]))
			}
		}
	})
	if failure == nil && !c.closed.Load() {
		return err
	}
	return failure
}

// memoryPause is the time after which an event is asked for again that there was no memory for.
const memoryPause = 100 * time.Millisecond

func event(e *C.vb_event) device.Event {
	got := device.Event{
		Type: device.EventType(e._type), Status: int32(e.status), ID: uint64(e.id), Listener: uint64(e.listener),
		Responder: uint8(e.responder), Initiator: uint8(e.initiator),
		Local: address(&e.local), Peer: address(&e.peer),
	}
	if e.listener != 0 {
		got.Made = &id{e.handle}
	}
	if e.length > 0 {
		got.Data = C.GoBytes(unsafe.Pointer(&e.data), C.int(e.length))
	}
	return got
}

func address(s *C.struct_sockaddr_storage) netip.AddrPort {
	switch s.ss_family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), port(&a.Port))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(s))
		ip := netip.AddrFrom16(a.Addr)
		if a.Scope_id != 0 {
			ip = ip.WithZone(zone(a.Scope_id))
		}
		return netip.AddrPortFrom(ip.Unmap(), port(&a.Port))
	}
	return netip.AddrPort{}
}

func zone(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return fmt.Sprint(index)
}

func port(p *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(p))
	return uint16(b[0])<<8 | uint16(b[1])
}

// sockaddr converts addr to a C sockaddr.
func sockaddr(addr netip.AddrPort) (*C.struct_sockaddr, error) {
	s := new(C.struct_sockaddr_storage)
	put := func(p *uint16) {
		b := (*[2]byte)(unsafe.Pointer(p))
		b[0], b[1] = byte(addr.Port()>>8), byte(addr.Port())
	}
	if ip := addr.Addr(); ip.Is4() {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		a.Family, a.Addr = unix.AF_INET, ip.As4()
		put(&a.Port)
	} else {
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(s))
		a.Family, a.Addr = unix.AF_INET6, ip.As16()
		put(&a.Port)
		if z := ip.Zone(); z != "" {
			i, err := net.InterfaceByName(z)
			if err != nil {
				return nil, err
			}
			a.Scope_id = uint32(i.Index)
		}
	}
	return (*C.struct_sockaddr)(unsafe.Pointer(s)), nil
}

func (c *channel) Listen(addr netip.AddrPort, onlyFamily bool, backlog int) (device.ID, error) {
	s, err := sockaddr(addr)
	if err != nil {
		return nil, err
	}
	var made *C.vb_id
	if r := C.vb_listen(c.c, s, C.bool(onlyFamily && addr.Addr().Is6()), C.int(backlog), &made); r != 0 {
		return nil, failed("rdma_listen", r)
	}
	return &id{made}, nil
}

func (c *channel) Resolve(addr netip.AddrPort, limit time.Duration) (device.ID, error) {
	s, err := sockaddr(addr)
	if err != nil {
		return nil, err
	}
	var made *C.vb_id
	if r := C.vb_resolve(c.c, s, milliseconds(limit), &made); r != 0 {
		return nil, failed("rdma_resolve_addr", r)
	}
	return &id{made}, nil
}

func milliseconds(d time.Duration) C.int { return C.int(max(d.Milliseconds(), 1)) }

func (c *channel) Close() {
	c.closed.Store(true)
	c.file.Close()
	C.vb_channel_close(c.c)
}

type id struct{ c *C.vb_id }

func (i *id) Number() uint64 { return uint64(C.vb_number(i.c)) }
func (i *id) Port() uint16   { return uint16(C.vb_port(i.c)) }
func (i *id) Close()         { C.vb_id_close(i.c) }

func (i *id) Route(limit time.Duration) error {
	return failed("rdma_resolve_route", C.vb_route(i.c, milliseconds(limit)))
}

func (i *id) Reject(data []byte) error {
	return failed("rdma_reject", C.vb_reject(i.c, unsafe.Pointer(unsafe.SliceData(data)), C.int(len(data))))
}

func (i *id) Attributes() (device.Attributes, error) {
	var a C.vb_attributes
	if r := C.vb_attributes_of(i.c, &a); r != 0 {
		return device.Attributes{}, failed("ibv_query_device", r)
	}
	return attributes(&a), nil
}

// sysfs is the directory with one folder for each device that processes can use.
const sysfs = "/sys/class/infiniband_verbs"

// An rnic is a device that was opened by an ID, which is bound to an address of the device.
type rnic struct {
	id
	attributes device.Attributes
	folder     string
	entry      os.FileInfo // describes folder; nil if there is no sysfs
}

func (c *channel) Carrier(addr netip.Addr) (device.Device, error) {
	s, err := sockaddr(netip.AddrPortFrom(addr, 0))
	if err != nil {
		return nil, err
	}
	d := &rnic{}
	var a C.vb_attributes
	if r := C.vb_carrier(c.c, s, &d.c, &a); r != 0 {
		return nil, failed("rdma_bind_addr", r)
	}
	d.attributes, d.folder = attributes(&a), filepath.Join(sysfs, C.GoString(&a.uverbs[0]))
	if d.entry, err = os.Stat(d.folder); err != nil {
		if _, none := os.Stat(sysfs); none == nil {
			d.Close()
			return nil, err // the device is being removed
		}
	}
	return d, nil
}

func (d *rnic) Attributes() device.Attributes { return d.attributes }

func (d *rnic) Present() bool {
	now, err := os.Stat(d.folder)
	return d.entry == nil || err == nil && os.SameFile(now, d.entry)
}

func (d *rnic) Async(told func(device.AsyncEvent)) {
	var events [C.VB_ASYNC]C.vb_async_event
	for n := len(events); n == len(events); {
		n = int(C.vb_async(d.c, &events[0], C.int(len(events))))
		for i := range events[:n] {
			told(device.AsyncEvent{Type: device.AsyncType(events[i]._type), ID: uint64(events[i].id)})
		}
	}
}

func (d *rnic) Active(port int) bool { return C.vb_active(d.c, C.int(port)) != 0 }

func (d *rnic) Retire() { C.vb_retire(d.c) }

// ethernet is IBV_LINK_LAYER_ETHERNET.
const ethernet = 2

func attributes(a *C.vb_attributes) device.Attributes {
	protocol := "InfiniBand"
	switch {
	case a.iwarp != 0:
		protocol = "iWARP"
	case a.link_layer == ethernet:
		protocol = "RoCE"
	}
	return device.Attributes{
		Name: C.GoString(&a.name[0]), Protocol: protocol, IWARP: a.iwarp != 0,
		QPs: int(a.max_qp), QPWorks: int(a.max_qp_wr), SGEs: int(a.max_sge), ReadSGEs: int(a.max_sge_rd),
		CQEntries: int(a.max_cqe), ReadsServed: int(a.max_qp_rd_atom), ReadsOutstanding: int(a.max_qp_init_rd_atom),
		MaxMessage: int(a.max_message), Active: a.state == 4,
		Device: uint64(a.device), Port: int(a.port),
		SIW: a.iwarp != 0 && a.vendor == 0x626d74, RXE: a.iwarp == 0 && a.vendor == 0xffffff,
	}
}

type domain struct{ c *C.vb_domain }

func (i *id) OpenDomain() (device.Domain, error) {
	d := &domain{}
	if r := C.vb_domain_open(i.c, &d.c); r != 0 {
		return nil, failed("ibv_alloc_pd", r)
	}
	return d, nil
}

func (d *domain) Close() error {
	return failed("ibv_dealloc_pd", C.vb_domain_close(d.c))
}

type region struct {
	c    *C.vb_region
	keys [2]C.uint32_t
}

func (d *domain) Register(memory []byte, access int) (device.Region, error) {
	r := &region{}
	at := C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	if e := C.vb_register(d.c, at, C.uint64_t(len(memory)), C.int(access), &r.c, &r.keys[0]); e != 0 {
		return nil, failed("ibv_reg_mr", e)
	}
	return r, nil
}

func (r *region) LKey() uint32 { return uint32(r.keys[0]) }
func (r *region) RKey() uint32 { return uint32(r.keys[1]) }

func (r *region) Deregister() error {
	return failed("ibv_dereg_mr", C.vb_deregister(r.c))
}

type conn struct {
	c           *C.vb_conn
	id          *C.vb_id
	file        *os.File
	raw         syscall.RawConn
	works       []device.Work
	receives    []device.Receive
	completions []device.Completion
}

func (i *id) Create(d device.Domain, caps device.Caps) (device.Conn, error) {
	c := &conn{id: i.c}
	var fd C.int
	q := C.vb_caps{C.uint32_t(caps.Sends), C.uint32_t(caps.Receives), C.uint32_t(caps.SGEs)}
	if r := C.vb_create(i.c, d.(*domain).c, &q, &c.c, &fd); r != 0 {
		return nil, failed("rdma_create_qp", r)
	}
	var err error
	if c.file, err = pollable(fd); err != nil {
		C.vb_destroy(c.c)
		return nil, err
	}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		C.vb_destroy(c.c)
		return nil, err
	}
	c.works = unsafe.Slice((*device.Work)(unsafe.Pointer(C.vb_works(c.c))), int(C.VB_FLUSH))
	c.receives = unsafe.Slice((*device.Receive)(unsafe.Pointer(C.vb_receives(c.c))), int(C.VB_FLUSH))
	c.completions = unsafe.Slice((*device.Completion)(unsafe.Pointer(C.vb_completions(c.c))), int(C.VB_COMPLETIONS))
	return c, nil
}

func (c *conn) Works() []device.Work       { return c.works }
func (c *conn) Receives() []device.Receive { return c.receives }

func (c *conn) withParam(p device.Param, call func(*C.vb_conn, *C.vb_param) C.int) C.int {
	param := C.vb_param{length: C.uint8_t(len(p.Data)), responder: C.uint8_t(p.Responder), initiator: C.uint8_t(p.Initiator)}
	for i, b := range p.Data {
		param.data[i] = C.uint8_t(b)
	}
	return call(c.c, &param)
}

func (c *conn) Accept(p device.Param) error {
	return failed("rdma_accept", c.withParam(p, func(c *C.vb_conn, p *C.vb_param) C.int { return C.vb_accept(c, p) }))
}

func (c *conn) Connect(p device.Param) error {
	return failed("rdma_connect", c.withParam(p, func(c *C.vb_conn, p *C.vb_param) C.int { return C.vb_connect(c, p) }))
}

func (c *conn) Flush(armSends bool, receives, works int) error {
	return failed("ibv_post_send", C.vb_flush(c.c, C.bool(armSends), C.int(receives), C.int(works)))
}

func (c *conn) Poll(flags int) (done []device.Completion, more bool, err error) {
	n := C.vb_poll(c.c, C.int(flags))
	if n < 0 {
		return nil, false, failed("ibv_poll_cq", n)
	}
	done = c.completions[:n]
	// vb_poll fills at most half of the completions with receives. If it has filled that
	// half, there may be more.
	half := len(c.completions) / 2
	return done, len(done) == cap(done) || len(done) >= half && done[half-1].Receive != 0, nil
}

func (c *conn) Serve(ready func() bool) error {
	for {
		goOn := true
		err := c.raw.Read(func(uintptr) bool {
			goOn = ready()
			return !goOn
		})
		if !goOn {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("cannot wait for completions: %w", err)
		}
		c.file.SetReadDeadline(time.Time{}) // Wake was called
	}
}

func (c *conn) Wake() { c.file.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) Disconnect() error {
	return failed("rdma_disconnect", C.vb_disconnect(c.c))
}

func (c *conn) DestroyQueues() error {
	c.file.Close() // a second call returns an error, which says nothing new
	return failed("ibv_destroy_qp", C.vb_destroy_queues(c.c))
}

func (c *conn) Destroy() {
	C.vb_destroy(c.c)
	C.vb_id_close(c.id)
}
