package overtime

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A deed is the kind of a call.
type deed uint8

const (
	read deed = iota
	write
	getSize
	setSize
	lookup
	create   // GUARDED: fails where the name exists
	exclude  // EXCLUSIVE, each with a verifier of its own
	makeFile // UNCHECKED
	makeDir
	remove
	rename
	link // to the one file with several names
	acquire
	release // by its owner
)

var deeds = [...]string{"READ", "WRITE", "GETATTR size", "SETATTR size", "LOOKUP", "CREATE GUARDED", "CREATE EXCLUSIVE", "CREATE UNCHECKED", "MKDIR", "REMOVE", "RENAME", "LINK", "LOCK", "LOCKU"}

// names is the number of names in a directory.
const names = 3

// An asked is the content of a call, without the protocol.
type asked struct {
	deed   deed
	object int    // the call's block, file or directory
	value  uint64 // of WRITE and SETATTR, the owner of LOCK and LOCKU, and the verifier of an EXCLUSIVE create
	name   int    // in the directory
	to     int    // of RENAME
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
	later // the server did nothing, and the client may try again: NFS3ERR_JUKEBOX, NFS4ERR_DELAY
	wrong // a result that a call of its kind must not have here
)

// A told is the content of an answer.
type told struct {
	status status
	value  uint64 // of READ and GETATTR
	id     int    // the file or directory of a name; 0: the answer does not name it
	text   string // of wrong
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

// target is the ID of the file that LINK links to. IDs of other files are larger.
const target = 1

// A place is the state of one object: the value of a register, the owner of the lock, or the ID
// of each name of a directory; 0: the name does not exist. An ID below 0 is one that no answer
// contained.
type place struct {
	value uint64
	names [names]int
}

// once is the model: each call takes effect exactly once, at one moment between its first sending
// and its answer. A call without an answer takes effect at any moment after its sending, or
// never; the model then puts its moment after all observations.
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

// part returns the object that a call is about.
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

// step applies one call, and reports whether its answer is right.
func (p *place) step(e *event) bool {
	a, t := e.asked, e.told
	if t.status == later {
		return true
	}
	// expect compares the answer's status, if there is an answer.
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
		case *n == *to: // both are names of one file: no change
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
