// Package device is the part of librdmacm and libibverbs that rdmacm/verbs needs. Its interfaces
// stand for the objects of the libraries. One method may combine several calls of the libraries.
// Package shim implements them with the libraries.
//
// A method that fails has freed all that it had made, and leaves its receiver and its arguments to the
// caller, as they were before the call.
//
// If a method may sleep, its comment says so: it may take as long as the kernel takes, and the
// provider calls it on a goroutine that may wait. The other methods return at once.
package device

import (
	"fmt"
	"net/netip"
	"time"
)

// SGEs is the largest number of pieces of memory in one Work.
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
)

// Signal is a flag of a Work: the Work has a completion even if it succeeds.
const Signal uint8 = 1

// A Work is a request of a send queue. Its memory layout is that of the shim's vb_work.
type Work struct {
	ID, Remote uint64
	RKey       uint32
	Op         Op
	Flags      uint8
	Count      uint16 // number of entries used in SGE
	SGE        [SGEs]SGE
}

// A Receive is a request of a receive queue: At is the memory for one message.
type Receive struct {
	ID uint64
	At SGE
}

// A Completion is the end of a Work or a Receive.
type Completion struct {
	ID          uint64
	Status      Status
	Length      uint32 // size of the message, or of what the peer wrote with immediate data
	Invalidated uint32 // key that the message invalidated, or 0
	Receive     uint32 // what completed a Receive: Message or Immediate; 0 for a Work
}

// A Receive completes by a message, or because the peer wrote with immediate data. In the second case
// its memory has no message, and Length may exceed it (InfiniBand specification, §9.4.5).
const (
	Message   = 1
	Immediate = 2
)

// Status is the status of a completion (enum ibv_wc_status).
type Status uint32

// Statuses that the provider tells apart.
const (
	OK              Status = 0
	LocalOperation  Status = 2
	Flushed         Status = 5 // the queue pair is in the error state
	RemoteAccess    Status = 10
	RetriesExceeded Status = 12
	NotPromised     Status = 13 // the peer has posted no receive
	ResponseTimeout Status = 20
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error", "local protection error",
	"flushed", "memory window bind error", "bad response", "local access error", "invalid request at the peer",
	"access refused by the peer", "operation failed at the peer", "peer does not answer", "peer has no receive posted",
	"local RDD violation", "invalid RD request at the peer", "aborted by the peer", "invalid EE context number",
	"invalid EE context state", "fatal error of the device", "peer did not answer in time", "general error",
}

// String describes the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// Caps are the sizes of a queue pair: the requests in the send queue and in the receive
// queue, and the SGEs in one request.
type Caps struct {
	Sends, Receives, SGEs uint32
}

// A Param holds the parameters that one side gives when a connection is made.
type Param struct {
	Data []byte
	// Responder is the number of RDMA Reads that this side serves at a time, and Initiator the
	// number that it may have outstanding.
	Responder, Initiator uint8
}

// EventType is the type of an event of rdma_cm (enum rdma_cm_event_type).
type EventType int32

// Types of events.
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

// String returns the name in rdma_cm(7), without RDMA_CM_EVENT_.
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
	// ID is the number of the ID that the event is about. In a ConnectRequest, Listener is the
	// number of the listening ID, and Made the new ID.
	ID, Listener         uint64
	Made                 ID
	Responder, Initiator uint8
	Data                 []byte
	Local, Peer          netip.AddrPort
}

// Attributes are the attributes of a device and of its port, as the driver states them.
type Attributes struct {
	Name                          string
	Protocol                      string // "iWARP", "InfiniBand" or "RoCE"
	IWARP                         bool
	QPs, QPWorks, SGEs, ReadSGEs  int
	CQEntries, MaxMessage         int
	ReadsServed, ReadsOutstanding int
	Active                        bool
	// SIW is true if the device is the kernel's software iWARP, which has a vendor number of its own.
	SIW bool
	// RXE is true if the device is the kernel's software RoCE, likewise.
	RXE bool
	// Device is a number that no other open device of this process has. Port is the number of the port,
	// counted from 1. Protocol, MaxMessage and Active are those of the port.
	Device uint64
	Port   int
}

// A Library opens event channels of the connection manager (rdma_cm).
type Library interface {
	Open() (Channel, error)
}

// A Channel is an event channel. The IDs made with its methods report their events to it.
type Channel interface {
	// Events passes each event to the function told, in order, until Close, and then returns
	// nil. Only one goroutine calls Events. The function must not wait. It may get events of an
	// ID that was closed already.
	Events(told func(e Event)) error
	// Close ends Events. The caller has closed all IDs of the channel before.
	Close()
	// Listen makes an ID that listens at addr. If onlyFamily is true, a listener at [::]
	// accepts no IPv4 peers. Listen may sleep.
	Listen(addr netip.AddrPort, onlyFamily bool, backlog int) (ID, error)
	// Carrier opens the RDMA device to which addr, an address of this machine, belongs. It fails
	// if addr belongs to no RDMA device.
	Carrier(addr netip.Addr) (Device, error)
	// Resolve begins to find the device that leads to addr. The event AddrResolved or an error
	// event follows, at the latest after the time limit.
	Resolve(addr netip.AddrPort, limit time.Duration) (ID, error)
}

// A Device is an open device. The library keeps its data about the device until Close or Retire.
type Device interface {
	// Number returns the number that Event.ID has in events about the device itself.
	Number() uint64
	Attributes() Attributes
	OpenDomain() (Domain, error)
	// Present reports whether the machine still has the device. A removal may come without an event.
	Present() bool
	// Async passes each asynchronous event since its last call to the function told. Only one
	// goroutine at a time calls Async, and none during or after Close or Retire.
	Async(told func(e AsyncEvent))
	// Active reports whether the port with this number carries traffic now.
	Active(port int) bool
	// Close closes the device. It may sleep.
	Close()
	// Retire closes a device that was removed, so that the kernel can complete the removal. The
	// caller has closed all domains and connections of the device before. Retire may sleep.
	Retire()
}

// An ID (rdma_cm_id) is a listener, or one end of a connection. After Create it belongs to the
// Conn that Create returned.
type ID interface {
	Number() uint64
	// Port returns the port of the ID.
	Port() uint16
	// Route begins to find the route. The event RouteResolved or an error event follows, at the
	// latest after the time limit.
	Route(limit time.Duration) error
	Reject(data []byte) error
	// Attributes returns the attributes of the ID's device and port. The ID must have a device.
	Attributes() (Attributes, error)
	OpenDomain() (Domain, error)
	// Create makes the queues of a connection. If it succeeds, the Conn owns the ID from then on. If it
	// fails, the ID is still the caller's.
	Create(d Domain, caps Caps) (Conn, error)
	// Close closes the ID. It must not be called after a Create that has succeeded. It may sleep.
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
	// Deregister may be called again if it has failed: the device may still use the memory then. It
	// may sleep.
	Deregister() error
}

// Flags of Conn.Poll. TakeEvents clears the completion channel's events. ArmReceives and ArmSends make
// the next completion of a receive or of a work cause an event, so that Serve calls ready.
const (
	TakeEvents = 1 << iota
	ArmReceives
	ArmSends
)

// A Conn is a connected queue pair with its completion queues. It takes at most one descriptor of the
// process, until DestroyQueues.
type Conn interface {
	// Works and Receives return the requests that Flush will post. Only the caller of Flush uses them.
	Works() []Work
	Receives() []Receive
	// Accept and Connect may sleep.
	Accept(p Param) error
	Connect(p Param) error
	// Flush posts the first requests of Receives() and of Works(). The arguments receives and
	// works are their numbers. If armSends is true, Flush also takes the step ArmSends of Poll.
	// Only one goroutine at a time calls Flush.
	Flush(armSends bool, receives, works int) error
	// Poll returns completions, those of receives first. They are valid until the next Poll.
	// more is true if there may be more completions. Before Poll polls, it takes the steps that
	// flags name. Only the goroutine of Serve calls Poll.
	Poll(flags int) (done []Completion, more bool, err error)
	// Serve calls the function ready at once, and again each time that an armed completion queue
	// gets a completion or Wake is called. Serve returns nil when the function returns false, and an
	// error if it can wait for completions no longer.
	Serve(ready func() bool) error
	Wake()
	// Disconnect puts the queue pair into the error state, unless DestroyQueues was called, and
	// tells the peer. It may sleep.
	Disconnect() error
	// DestroyQueues destroys the queue pair and the completion queues, with their descriptor. After it
	// has succeeded, the device touches no memory of the connection's requests. If it fails, the device
	// may still do so; DestroyQueues may be called again, and Poll may be called in between. After the
	// removal of the device it succeeds. It is called after Serve has returned. Flush must not run during
	// DestroyQueues or after it. It may sleep.
	DestroyQueues() error
	// Destroy frees the ID and everything else of the connection that DestroyQueues has left. What cannot
	// be destroyed stays until the process ends. It is called after DestroyQueues. It may sleep.
	Destroy()
}
