// Package device is what rdmacm/verbs needs of librdmacm and libibverbs: their objects, in
// calls that do much at once. Package shim implements it with the libraries.
//
// A method says whether it may sleep: then it may take as long as the kernel likes, and
// runs on a goroutine of its own. The others return at once.
package device

import (
	"fmt"
	"net/netip"
	"time"
)

// SGEs is how many pieces of memory one Work may have.
const SGEs = 8

// An SGE is a piece of memory that a device knows by LKey.
type SGE struct {
	Addr         uint64
	Length, LKey uint32
}

// Op is the kind of a Work.
type Op uint8

// Kinds of work requests.
const (
	Write Op = iota + 1
	Read
	Send
	SendInvalidate
)

// Signal is a flag of a Work: it has a completion where it succeeds, too.
const Signal uint8 = 1

// A Work is a request of a send queue, laid out as the shim has it.
type Work struct {
	ID, Remote uint64
	RKey       uint32 // of SendInvalidate: what it invalidates
	Op         Op
	Flags      uint8
	Count      uint16 // of SGE
	SGE        [SGEs]SGE
}

// A Receive is a request of a receive queue.
type Receive struct {
	ID uint64
	At SGE
}

// A Completion is the end of a Work or a Receive.
type Completion struct {
	ID          uint64
	Status      Status
	Length      uint32 // of a message
	Invalidated uint32 // key that a message invalidated, or 0
	Receive     uint32 // 1: of a Receive
}

// Status is the status of a completion (enum ibv_wc_status).
type Status uint32

// Statuses that the provider tells apart.
const (
	OK              Status = 0
	Flushed         Status = 5 // the queue pair is in error
	RemoteAccess    Status = 10
	RetriesExceeded Status = 12
	NotPromised     Status = 13 // the peer has no receive
	ResponseTimeout Status = 20
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error", "local protection error",
	"flushed", "memory window bind error", "bad response", "local access error", "invalid request at the peer",
	"access refused by the peer", "operation failed at the peer", "peer does not answer", "peer has no receive posted",
	"local RDD violation", "invalid RD request at the peer", "aborted by the peer", "invalid EE context number",
	"invalid EE context state", "fatal error of the device", "peer did not answer in time", "general error",
}

// String says what the status means.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// Caps are the sizes of a queue pair.
type Caps struct {
	Sends, Receives, SGEs uint32
}

// A Param is what one side says when a connection is made.
type Param struct {
	Data []byte
	// Responder is how many RDMA Reads this side serves at a time, Initiator how
	// many it has outstanding.
	Responder, Initiator uint8
}

// EventType is the type of an event of rdma_cm (enum rdma_cm_event_type).
type EventType int32

// Events.
const (
	AddrResolved EventType = iota
	AddrError
	RouteResolved
	RouteError
	ConnectRequest
	ConnectResponse
	ConnectError
	Unreachable
	Rejected
	Established
	Disconnected
	DeviceRemoval
	MulticastJoin
	MulticastError
	AddrChange
	TimewaitExit
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
	"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
}

// String is the name that rdma_cm(7) has, without RDMA_CM_EVENT_.
func (t EventType) String() string {
	if t >= 0 && int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", int32(t))
}

// An Event is an event of the connection manager.
type Event struct {
	Type   EventType
	Status int32
	// ID is the number of the ID that it is about. Listener is that of the listening ID,
	// and Made the new ID, where Type is ConnectRequest.
	ID, Listener         uint64
	Made                 ID
	Responder, Initiator uint8
	Data                 []byte
	Local, Peer          netip.AddrPort
}

// Attributes are those of a device and of its port.
type Attributes struct {
	Name                             string
	Protocol                         string // "iWARP", "InfiniBand" or "RoCE"
	IWARP                            bool
	QPs, QPWorks, SGEs, ReadSGEs     int
	CQs, CQEntries, Regions, Domains int
	ReadsServed, ReadsOutstanding    int
	MaxMessage, MTU                  int
	Active                           bool
	// SendsInvalidate: the device can post SendInvalidate.
	SendsInvalidate bool
	// SIW: the kernel's software iWARP, by its vendor's number.
	SIW bool
	// Device tells the devices of a process apart.
	Device uint64
}

// A Library opens the connection manager.
type Library interface {
	Open() (Channel, error)
}

// A Channel is an event channel with what is made on it.
type Channel interface {
	// Events calls told for each event, in order, until Close, and returns nil then. One
	// goroutine calls it.
	// told must not wait. It may be called for an ID that was closed already.
	Events(told func(e Event)) error
	// Close ends Events. No ID of the channel is left.
	Close()
	// Listen may sleep. onlyFamily: [::] takes no IPv4 peers.
	Listen(addr netip.AddrPort, onlyFamily bool, backlog int) (ID, error)
	// Carrier opens the device that carries an address of this machine. It fails where
	// none does.
	Carrier(addr netip.Addr) (Device, error)
	// Resolve begins to find the way to addr: AddrResolved or an error follow.
	Resolve(addr netip.AddrPort, limit time.Duration) (ID, error)
}

// A Device is an open one. The library keeps what it knows of the device until Close or Retire.
type Device interface {
	// Number is that of the ID whose events are about the device alone.
	Number() uint64
	Attributes() Attributes
	OpenDomain() (Domain, error)
	// Present reports whether the machine still has the device: a removal may come without
	// an event.
	Present() bool
	// Async calls told for each asynchronous event that the device has had since the last
	// call. One goroutine calls it, and neither beside Close or Retire nor after them.
	Async(told func(e AsyncEvent))
	// Active reports whether the device's port carries traffic now.
	Active() bool
	// Close may sleep.
	Close()
	// Retire is Close of a device that was removed. The kernel completes the removal then.
	// No domain and no connection of the device is left in this process. It may sleep.
	Retire()
}

// An ID is an end of a connection that is made, or a listener.
type ID interface {
	Number() uint64
	// Port is the port that it is bound to.
	Port() uint16
	// Route begins to find the route: RouteResolved or an error follow.
	Route(limit time.Duration) error
	Reject(data []byte) error
	// Attributes of its device. Only where it has one.
	Attributes() (Attributes, error)
	OpenDomain() (Domain, error)
	// Create makes the queues of a connection, which has the ID from then on.
	Create(d Domain, caps Caps) (Conn, error)
	// Close may sleep. Not after Create.
	Close()
}

// Access rights of a region.
const (
	LocalWrite  = 1
	RemoteWrite = 2
	RemoteRead  = 4
)

// A Domain is a protection domain.
type Domain interface {
	// Register may sleep.
	Register(memory []byte, access int) (Region, error)
	// Close fails while the domain still has regions or connections.
	Close() error
}

// A Region is memory that a device knows.
type Region interface {
	LKey() uint32
	RKey() uint32
	Deregister() error
}

// Flags of Conn.Poll.
const (
	TakeEvents = 1 << iota
	ArmReceives
	ArmSends
)

// A Conn is a connected queue pair with its completion queues.
type Conn interface {
	// Works and Receives are what Flush posts. Only who calls Flush uses them.
	Works() []Work
	Receives() []Receive
	// Accept and Connect may sleep.
	Accept(p Param) error
	Connect(p Param) error
	// Flush posts the first receives and works. One goroutine at a time calls it. posted
	// is how many works the device has taken.
	Flush(armSends bool, receives, works int) (posted int, err error)
	// Poll returns what has completed, those of receives first, until it is called again;
	// more: there may be more of it. flags say what is done before. One goroutine calls it,
	// that of Serve.
	Poll(flags int) (done []Completion, more bool, err error)
	// Serve calls ready at once, and each time that an armed queue has had a completion
	// or Wake was called, until ready returns false.
	Serve(ready func() bool)
	Wake()
	// Disconnect puts the queue pair into error and tells the peer. It may sleep.
	Disconnect() error
	// DestroyQP: from then on the device touches no memory. It may sleep. Nothing is
	// posted beside it or after it.
	DestroyQP()
	// Destroy ends everything, the ID too. It may sleep. Serve has returned.
	Destroy()
}
