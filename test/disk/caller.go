package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A stability is the stability level of a WRITE. NFSv3 and NFSv4 use the same numbers.
type stability int32

const (
	unstable stability = iota
	dataSync
	fileSync
)

func (s stability) String() string { return [...]string{"UNSTABLE", "DATA_SYNC", "FILE_SYNC"}[s] }

// A status is the status of a reply. NFSv3 and NFSv4 use the same numbers for the statuses named
// here.
type status uint32

const (
	statusOK    = status(nfs3wire.NFS3OK)
	statusNoEnt = status(nfs3wire.NFS3ErrNoEnt)
	statusIO    = status(nfs3wire.NFS3ErrIO)
	statusNoSpc = status(nfs3wire.NFS3ErrNoSpace)
	statusLater = status(nfs3wire.NFS3ErrJukebox) // in NFSv4: NFS4ERR_DELAY
)

func (s status) String() string { return nfs4wire.NFSStat4(s).String() }

// statusOf returns the status in the server's reply. told is false if there was no reply.
func statusOf(err error) (s status, told bool) {
	if err == nil {
		return statusOK, true
	}
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		return status(e.Status), true
	}
	if e, ok := errors.AsType[*client.OpError](err); ok {
		return status(client.StatusOf(e)), true
	}
	return 0, false
}

// attributes are the attributes that the test checks. change is the value by which clients notice
// a change of the file: the change attribute in NFSv4, the ctime in NFSv3.
type attributes struct {
	fileID, size uint64
	change       string
}

// A createHow is the mode of a create. An exclusive create has a verifier; any other create fails
// if the name exists.
type createHow struct {
	exclusive bool
	verifier  [8]byte
}

// A caller makes calls of one version of NFS over its own connection.
type caller interface {
	Lookup(ctx context.Context, dir client.Handle, name string) (client.Handle, error)
	Getattr(ctx context.Context, file client.Handle) (attributes, error)
	SetMode(ctx context.Context, file client.Handle, mode uint32) error
	SetSize(ctx context.Context, file client.Handle, size uint64) error
	Write(ctx context.Context, file client.Handle, at uint64, b []byte, s stability) (count int, committed stability, verifier [8]byte, err error)
	Commit(ctx context.Context, file client.Handle) (verifier [8]byte, err error)
	Create(ctx context.Context, dir client.Handle, name string, how createHow) (client.Handle, error)
	Mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error)
	Remove(ctx context.Context, dir client.Handle, name string) error
	Rmdir(ctx context.Context, dir client.Handle, name string) error
	Rename(ctx context.Context, fromDir client.Handle, from string, toDir client.Handle, to string) error
	Close()
}

// caller3 uses NFSv3.
type caller3 struct {
	client.NFS3
	conn *client.Conn
}

func (c caller3) Lookup(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	h, _, err := c.NFS3.Lookup(ctx, dir, name)
	return h, err
}

func (c caller3) Getattr(ctx context.Context, file client.Handle) (attributes, error) {
	a, err := c.NFS3.Getattr(ctx, file)
	return attributes{a.FileID, a.Size, fmt.Sprintf("%d.%09d", a.Ctime.Seconds, a.Ctime.Nanoseconds)}, err
}

func (c caller3) SetMode(ctx context.Context, file client.Handle, mode uint32) error {
	return c.Setattr(ctx, file, nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: mode}})
}

func (c caller3) SetSize(ctx context.Context, file client.Handle, size uint64) error {
	return c.Setattr(ctx, file, nfs3wire.Sattr3{Size: nfs3wire.SetSize3{SetIt: true, Size: size}})
}

func (c caller3) Write(ctx context.Context, file client.Handle, at uint64, b []byte, s stability) (int, stability, [8]byte, error) {
	w, err := c.NFS3.Write(ctx, file, at, b, nfs3wire.StableHow(s))
	return w.Count, stability(w.Committed), w.Verifier, err
}

func (c caller3) Commit(ctx context.Context, file client.Handle) ([8]byte, error) {
	return c.NFS3.Commit(ctx, file, 0, 0)
}

func (c caller3) Create(ctx context.Context, dir client.Handle, name string, how createHow) (client.Handle, error) {
	h := nfs3wire.CreateHow3{Mode: nfs3wire.Guarded, ObjAttributes: nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: firstMode}}}
	if how.exclusive {
		h = nfs3wire.CreateHow3{Mode: nfs3wire.Exclusive, Verf: how.verifier}
	}
	file, _, err := c.NFS3.Create(ctx, dir, name, h)
	return file, err
}

func (c caller3) Mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	return c.NFS3.Mkdir(ctx, dir, name, nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: 0o755}})
}

func (c caller3) Close() { c.conn.Close() }

// caller4 uses NFSv4.1 or 4.2. It writes with the anonymous stateid.
type caller4 struct {
	client.NFS4
	owner []byte
}

func (c caller4) Lookup(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	return c.Walk(ctx, dir, name)
}

func (c caller4) Getattr(ctx context.Context, file client.Handle) (attributes, error) {
	a, err := c.NFS4.Getattr(ctx, file, nfs4wire.Bits(nfs4wire.Fattr4Change, nfs4wire.Fattr4Size, nfs4wire.Fattr4FileID))
	return attributes{a.FileID, a.Size, fmt.Sprint(a.Change)}, err
}

func (c caller4) SetMode(ctx context.Context, file client.Handle, mode uint32) error {
	return c.Setattr(ctx, file, nfs4wire.StateID4{}, client.ModeAttribute(mode))
}

func (c caller4) SetSize(ctx context.Context, file client.Handle, size uint64) error {
	return c.Setattr(ctx, file, nfs4wire.StateID4{}, client.SizeAttribute(size))
}

func (c caller4) Write(ctx context.Context, file client.Handle, at uint64, b []byte, s stability) (int, stability, [8]byte, error) {
	w, err := c.NFS4.Write(ctx, file, nfs4wire.StateID4{}, at, b, nfs4wire.StableHow4(s))
	return w.Count, stability(w.Committed), w.Verifier, err
}

func (c caller4) Commit(ctx context.Context, file client.Handle) ([8]byte, error) {
	return c.NFS4.Commit(ctx, file, 0, 0)
}

func (c caller4) Create(ctx context.Context, dir client.Handle, name string, how createHow) (client.Handle, error) {
	h := nfs4wire.Createhow4{Mode: nfs4wire.Guarded4, Createattrs: client.ModeAttribute(firstMode)}
	if how.exclusive {
		h = nfs4wire.Createhow4{Mode: nfs4wire.Exclusive41, Createboth: nfs4wire.Creatverfattr{Verf: how.verifier}}
	}
	o, err := c.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: c.owner, Access: nfs4wire.Open4ShareAccessBoth, Create: &h,
	})
	if err == nil {
		err = c.CloseFile(ctx, o.File, o.StateID)
	}
	return o.File, err
}

func (c caller4) Mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	return c.NFS4.Mkdir(ctx, dir, name, 0o755)
}

func (c caller4) Rmdir(ctx context.Context, dir client.Handle, name string) error {
	return c.Remove(ctx, dir, name)
}

func (c caller4) Close() { c.Session.Abandon() }
