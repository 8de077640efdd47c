package overtime

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A deed is the kind of a call: a procedure of NFSv3 or a compound of NFSv4.0.
type deed uint8

const (
	read deed = iota
	write
	getSize
	setSize
	lookup
	create   // GUARDED: fails if the name exists
	exclude  // EXCLUSIVE: each call has another verifier
	makeFile // UNCHECKED
	makeDir
	remove
	rename
	link // to the file target, which has several names
	acquire
	release // by the owner of the lock
)

var deeds = [...]string{"READ", "WRITE", "GETATTR size", "SETATTR size", "LOOKUP", "CREATE GUARDED", "CREATE EXCLUSIVE", "CREATE UNCHECKED", "MKDIR", "REMOVE", "RENAME", "LINK", "LOCK", "LOCKU"}

// names is the number of names in a directory.
const names = 3

// An asked is the content of a call, independent of the protocol version.
type asked struct {
	deed   deed
	object int    // number of the call's block, file or directory
	value  uint64 // the value for WRITE and SETATTR, the owner for LOCK and LOCKU, the verifier for an EXCLUSIVE create
	name   int    // number of the name in the directory
	to     int    // number of the new name for RENAME
}

func (a asked) String() string {
	switch a.deed {
	case read, getSize:
		return fmt.Sprintf("%s of %d", deeds[a.deed], a.object)
	case write, setSize:
		return fmt.Sprintf("%s of %d = %d", deeds[a.deed], a.object, a.value)
	case acquire, release:
		return fmt.Sprintf("%s by owner %d", deeds[a.deed], a.value)
	case rename:
		return fmt.Sprintf("%s %d/%c to %c", deeds[a.deed], a.object, 'a'+a.name, 'a'+a.to)
	}
	return fmt.Sprintf("%s %d/%c", deeds[a.deed], a.object, 'a'+a.name)
}

// A status is the result of a call.
type status uint8

const (
	unknown status = iota // no answer
	ok
	exists
	absent
	denied
	later // the server did not execute the call, and the client may try again: NFS3ERR_JUKEBOX, NFS4ERR_DELAY
	wrong // any other result
)

// A told is the content of an answer, independent of the protocol version.
type told struct {
	status status
	value  uint64 // result of READ and GETATTR
	id     int    // number of the file or directory in the answer; 0 if the answer has none
	text   string // describes a result that is wrong
}

func (t told) String() string {
	switch t.status {
	case unknown:
		return "no answer"
	case exists:
		return "EXIST"
	case absent:
		return "NOENT"
	case denied:
		return "DENIED"
	case later:
		return "LATER"
	case wrong:
		return t.text
	}
	return fmt.Sprintf("OK, value %d, file %d", t.value, t.id)
}

// target is the number of the file that LINK links to. Other files have larger numbers.
const target = 1

// A place is the state of one object: the value of a register, the owner of a lock, or the file
// number of each name in a directory. A file number of 0 means that the name does not exist. A
// negative number stands for a file whose number is in no answer so far.
type place struct {
	value uint64
	names [names]int
}

// once is the model: each call takes effect exactly once, at one moment between its first sending
// and its answer. A call without an answer takes effect at any moment after its sending, or never.
// For "never" the model assumes a moment after all other calls.
var once = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := make(map[[2]int]int)
		for _, o := range history {
			k := part(o.Input.(*event).asked)
			i, there := at[k]
			if !there {
				i = len(parts)
				at[k] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return place{} },
	Step: func(state, input, _ any) (bool, any) {
		p := state.(place)
		ok := p.step(input.(*event))
		return ok, p
	},
}

// part returns an identifier of the object that a call is about.
func part(a asked) [2]int {
	switch a.deed {
	case read, write:
		return [2]int{0, a.object}
	case getSize, setSize:
		return [2]int{1, a.object}
	case acquire, release:
		return [2]int{3, 0}
	}
	return [2]int{2, a.object}
}

// step applies one call to the state of its object, and reports whether its answer is possible.
func (p *place) step(e *event) bool {
	a, t := e.asked, e.told
	if t.status == later {
		return true
	}
	// expect reports whether the answer has this status. A call without an answer always passes.
	expect := func(s status) bool { return t.status == unknown || t.status == s }
	made := t.id
	if made == 0 {
		made = -1 - e.number
	}
	n := &p.names[a.name]
	switch a.deed {
	case read, getSize:
		return t.status == unknown || t.status == ok && t.value == p.value
	case write, setSize:
		p.value = a.value
		return expect(ok)
	case acquire:
		if p.value != 0 && p.value != a.value {
			return expect(denied)
		}
		p.value = a.value
		return expect(ok)
	case release:
		held := p.value == a.value
		p.value = 0
		return held && expect(ok)
	case lookup:
		switch {
		case t.status == unknown:
			return true
		case *n == 0:
			return t.status == absent
		case *n < 0:
			return t.status == ok && t.id != target
		}
		return t.status == ok && t.id == *n
	case create, exclude, makeDir:
		if *n != 0 {
			return expect(exists)
		}
		*n = made
		return expect(ok)
	case makeFile:
		if *n == 0 {
			*n = made
			return expect(ok)
		}
		return expect(ok) && (*n < 0 || t.id == 0 || t.id == *n)
	case remove:
		if *n == 0 {
			return expect(absent)
		}
		*n = 0
		return expect(ok)
	case rename:
		to := &p.names[a.to]
		switch {
		case *n == 0:
			return expect(absent)
		case *n == *to: // both names refer to one file, so nothing changes
		default:
			*to, *n = *n, 0
		}
		return expect(ok)
	case link:
		if *n != 0 {
			return expect(exists)
		}
		*n = target
		return expect(ok)
	}
	return false
}
