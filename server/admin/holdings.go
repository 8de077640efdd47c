package admin

import (
	"fmt"
	"strings"
	"time"
)

// A File names a file as well as the daemon can at once.
type File struct {
	// Export is the name of the export by which the client reached the file; "#" and a number if it is served no more.
	Export string `json:"export"`
	// Path is the file's path on the server; "" if the daemon would have to look for it. If it is no plain text, it is in Go's
	// quotes (strconv.Unquote). Handle identifies the file within its file system: hexadecimal digits, not those of a handle
	// of the protocol.
	Path   string `json:"path,omitempty"`
	Handle string `json:"file"`
}

func (f *File) cell() string {
	if f.Path == "" {
		return "file " + f.Handle
	}
	if strings.HasPrefix(f.Path, `"`) {
		return f.Path
	}
	return quoted(f.Path)
}

// A Holder is an owner at a client, such as a process, that has something open or locked.
type Holder struct {
	// Client is Client.ID, and Address and Kind are those of the client.
	Client  string `json:"client"`
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Owner is the client's name for the owner; "0x" and hexadecimal digits if it is no plain text or begins with "0x".
	Owner string `json:"owner"`
}

// An Open is what one owner has open in one file.
type Open struct {
	Holder
	File
	// Access is what the owner may do, and Deny what it denies to others: "r", "w", "rw" or "".
	Access string `json:"access"`
	Deny   string `json:"deny"`
	Locks  int    `json:"locks"`
	// Revoked is true if the open was taken from the client, which has not acknowledged that yet.
	Revoked bool `json:"revoked"`
}

func (*Open) heads() []any {
	return []any{"CLIENT", "ADDRESS", "KIND", "ACCESS", "DENIES", "LOCKS", "EXPORT", "PATH"}
}

func (o *Open) row() []any {
	access, deny := o.Access, o.Deny
	switch {
	case o.Revoked:
		access, deny = "taken", "-"
	case deny == "":
		deny = "-"
	}
	return []any{o.Client, o.Address, o.Kind, access, deny, o.Locks, quoted(o.Export), o.cell()}
}

// A Lock is a byte range that an owner has locked, or for which it waits.
type Lock struct {
	Holder
	File
	// The range is from First to Last, both included. Last is 18446744073709551615 for the end of the file.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Write bool   `json:"write"`
	// Waits is true if the owner waits for the lock, which it last asked for at Asked. By is the holder of a lock that is
	// in the way. If it is nil, an earlier waiter comes first, or a program on the server has the lock.
	Waits bool       `json:"waits"`
	Asked *time.Time `json:"asked,omitempty"`
	By    *Holder    `json:"by,omitempty"`
}

func (*Lock) heads() []any {
	return []any{"CLIENT", "ADDRESS", "KIND", "LOCK", "BYTES", "STATE", "EXPORT", "PATH"}
}

func (l *Lock) row() []any {
	mode, state, last := "read", "held", fmt.Sprint(l.Last)
	if l.Write {
		mode = "write"
	}
	if l.Last == 1<<64-1 {
		last = "end"
	}
	if l.Waits {
		if state = "waits"; l.By != nil {
			state += " for " + l.By.Client + " at " + l.By.Address
		}
	}
	return []any{l.Client, l.Address, l.Kind, mode, fmt.Sprintf("%d-%s", l.First, last), state, quoted(l.Export), l.cell()}
}

// A Choice says which opens or locks a request is about. A field that is "" chooses all.
type Choice struct {
	// Client is Client.ID, or an address or an IPv6 network (/64): then all clients there. What takes something from clients
	// refuses an IPv6 address, because the daemon knows only its network.
	Client string
	// Export is the name of an export, and File a File.Handle, or an absolute path on the server by which programs there reach
	// the file, plain or as File.Path has it.
	Export, File string
}

// choices are the names of the parameters of a Choice.
var choices = []string{"client", "export", "file"}

func (q *query) choice() Choice {
	return Choice{Client: q.Get("client"), Export: q.Get("export"), File: q.Get("file")}
}
