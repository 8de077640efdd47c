package admin

import (
	"fmt"
	"time"
)

// A Call is a call in progress: one that a thread executes, or that waits. Calls that end at once are in no list. It may
// also be one that was answered, if its client or a program there waits all the same (Again).
type Call struct {
	// Client is the address and port of the caller, and Transport "tcp" or "rdma". Of one that waits for a lock or a
	// callback they are the address alone, and "".
	Client    string `json:"client"`
	Transport string `json:"transport"`
	XID       uint32 `json:"xid"`
	// Operation is the call's operation of NFSv4, if it executes one; else its procedure, such as "WRITE" or "COMPOUND".
	Program   string `json:"program"`
	Version   uint32 `json:"version"`
	Operation string `json:"operation"`
	// File is what the call is about, if it is known. Exports are the exports on the file system that the call uses.
	*File   `json:",omitempty"`
	Exports []string `json:"exports,omitempty"`
	// Since is when the call began to need a thread or to wait, and Stage when it began what it does or waits for now.
	Since time.Time `json:"since"`
	Stage time.Time `json:"stage_since"`
	// Waits is what the call waits for: "disk" (a thread executes it in a file system), "thread" (others come first), "user"
	// (the caller's groups or account are looked up), "state" (the record of a client is written, or what
	// another client holds has to end), "turn" (an earlier request of the same owner), "memory" (other calls have the
	// payload memory), "grace" (the end of the grace period), "lock" (By has it), "share" (another client has the file
	// open and denies this access), "callback" (the client was granted a lock, and does not answer the daemon's call that
	// says so), or "unknown".
	Waits string `json:"waits_for"`
	// Again is true if the daemon has answered, and the client waits and asks again. Since is then when it was put off
	// first, if that is known, and Stage when it was last.
	Again bool `json:"asks_again,omitempty"`
	// By is the client that has the lock, if a client has it.
	By *Holder `json:"held_by,omitempty"`
	// More, if it is not 0, is the number of further calls that wait for the same, which the list leaves out. Only Exports and
	// Waits are set then.
	More int `json:"more,omitempty"`
}

func (*Call) heads() []any {
	return []any{"CLIENT", "OVER", "OPERATION", "FOR", "WAITS FOR", "EXPORT", "PATH"}
}

func (c *Call) row() []any {
	export, path := orNone(c.Exports), "-"
	if c.File != nil {
		export, path = quoted(c.File.Export), c.cell()
	}
	if c.More > 0 {
		return []any{fmt.Sprintf("and %d more", c.More), "", "", "", c.Waits, export, ""}
	}
	waits, over, age := c.Waits, c.Transport, "-"
	if c.By != nil {
		waits += " of " + c.By.Address
	}
	if over == "" {
		over = "-"
	}
	if !c.Since.IsZero() {
		age = since(c.Since)
	}
	return []any{c.Client, over, fmt.Sprintf("%s%d %s", c.Program, c.Version, c.Operation), age, waits, export, path}
}
