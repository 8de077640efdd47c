package disk

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/client"
)

const (
	writers   = 16
	ownFiles  = 6
	ownSlots  = 6
	sharedFor = 6 // slots of each writer in the shared file
	sharedTag = 1 // object number of the shared file
)

// A writer changes files in its own directory, and its own slots of the file that all writers
// share. It makes one call at a time.
type writer struct {
	round   *round
	number  int
	version int
	random  *rand.Rand
	call    caller
	ctx     context.Context

	root, dir      client.Handle
	entries        names // entries of dir
	files          []*object
	names          map[*object]string // names of the files that exist
	live           []*object          // files created during the round
	exclusive      []made             // files made by an exclusive create, and not renamed or removed since
	dirs           []string
	shared         *object // the shared file, with only this writer's slots
	objects        int
	values         uint32
	serial         atomic.Int64 // number of the last new name
	history        []string
	answered, told int
	ended          bool // true if the writer must make no more calls
}

// A made is a file that an exclusive create has made.
type made struct {
	name string
	how  createHow
	o    *object
}

func (w *writer) name() string { return fmt.Sprint("writer", w.number) }

// try makes a call about the file o, which may be nil. It returns true if the server answered with
// success before the power was cut. It reports a call without an answer, and an answer that the
// fault does not allow, as errors of the server.
func (w *writer) try(o *object, format string, args []any, call func() error) bool {
	if w.ended || w.round.device.off.Load() {
		w.ended = true
		return false
	}
	w.round.calling.RLock()
	err := call()
	w.round.calling.RUnlock()
	if w.round.device.off.Load() {
		w.ended = true // the server may have sent the answer after the power cut
		return false
	}
	what := fmt.Sprintf(format, args...)
	s, answered := statusOf(err)
	if !answered {
		w.ended = true
		w.round.report("%s: %s: no answer: %v", w.name(), what, err)
		return false
	}
	w.history = append(w.history, fmt.Sprintf("%s: %v", what, s))
	w.round.answered.Add(1)
	if s == statusOK {
		w.answered++
		return true
	}
	if s != statusLater {
		w.told++
		if why := w.round.fault.unexpected(w.round, what, o, s); why != "" {
			w.report("%s: %v: %s", what, s, why)
		}
	}
	return false
}

func (w *writer) report(format string, args ...any) {
	w.round.report("%s (NFSv%d): %s\n\tlast: %q", w.name(), w.version, fmt.Sprintf(format, args...), w.history[max(0, len(w.history)-6):])
}

func list(args ...any) []any { return args }

// work runs the fault's act, up to the given number of times. It stops earlier if the writer has
// ended.
func (w *writer) work(acts int) {
	for range acts {
		if w.ended {
			return
		}
		w.round.fault.act(w)
	}
}

// mixed makes one call of a random kind.
func (w *writer) mixed() {
	switch w.random.IntN(20) {
	case 0, 1, 2, 3:
		w.write(w.any(w.files), w.anyStability())
	case 4, 5, 6:
		w.write(w.shared, w.anyStability())
	case 7, 8:
		w.commitAny()
	case 9:
		w.create(false)
	case 10, 11:
		w.create(true)
	case 12, 13:
		w.repeat()
	case 14:
		w.mkdir()
	case 15:
		w.rename()
	case 16:
		w.remove()
	case 17:
		w.setMode(w.any(append(slices.Clone(w.files), w.shared)))
	case 18:
		w.truncate()
	case 19:
		w.look(w.any(w.files))
	}
}

func (w *writer) any(all []*object) *object { return all[w.random.IntN(len(all))] }

func (w *writer) anyStability() stability {
	return []stability{unstable, unstable, unstable, fileSync, fileSync, dataSync}[w.random.IntN(6)]
}

// slot returns the index of o.slots[i] in the file. In the shared file, each writer has the slots
// after those of the writer before it.
func (w *writer) slot(o *object, i int) int {
	if o == w.shared {
		return w.number*sharedFor + i
	}
	return i
}

func (w *writer) write(o *object, s stability) {
	first := w.random.IntN(len(o.slots))
	w.writeAt(o, first, 1+w.random.IntN(min(3, len(o.slots)-first)), s)
}

// writeAt writes a new value to n slots.
func (w *writer) writeAt(o *object, first, n int, s stability) {
	w.values++
	v := value(w.number+1)<<32 | value(w.values)
	var b []byte
	for i := first; i < first+n; i++ {
		b = append(b, v.slot(o.number, w.slot(o, i))...)
		o.slots[i].send(v)
	}
	o.version++
	at := uint64(w.slot(o, first)) * slotSize
	var count int
	var committed stability
	var verifier [8]byte
	if !w.try(o, "WRITE %v of %v to slots %d..%d of %v", list(s, v, w.slot(o, first), w.slot(o, first+n-1), o), func() (err error) {
		count, committed, verifier, err = w.call.Write(w.ctx, o.handle, at, b, s)
		return err
	}) {
		return
	}
	if committed < s {
		w.report("WRITE %v was answered %v", s, committed)
	}
	for i := first; i < first+n && count >= slotSize; i, count = i+1, count-slotSize {
		if committed == unstable {
			o.slots[i].answeredUnstable(v, verifier)
		} else {
			o.slots[i].settle(v)
			w.flushed(o, i, committed)
		}
	}
	if committed == fileSync && o.isSettled() {
		o.settled = o.version
	}
}

// flushed reports an error unless the kernel has flushed to the disk the value that the server has
// just answered as stable.
func (w *writer) flushed(o *object, i int, by any) {
	v, at := o.slots[i].settled, w.slot(o, i)
	if !w.round.device.isStable(v, o.number, at) {
		w.report("slot %d of %v: %v of %v was answered, and the disk was not told to make it stable", at, o, by, v)
	}
}

func (w *writer) commitAny() {
	all := slices.DeleteFunc(append(slices.Clone(w.files), w.shared), func(o *object) bool { return !o.waits() })
	if len(all) > 0 {
		w.commit(w.any(all))
	}
}

func (w *writer) commit(o *object) {
	var verifier [8]byte
	if !w.try(o, "COMMIT of %v", list(o), func() (err error) {
		verifier, err = w.call.Commit(w.ctx, o.handle)
		return err
	}) {
		return
	}
	told := false
	for i, r := range o.slots {
		waited := r.waits
		if r.commit(verifier) {
			told = true
		} else if waited {
			w.flushed(o, i, "COMMIT")
		}
	}
	if told {
		w.round.verifiers.Add(1)
	}
	if o.isSettled() {
		o.settled = o.version
	}
}

// look reads the change attribute of a file and records the version of the content that it
// belongs to.
func (w *writer) look(o *object) {
	var a attributes
	if w.try(o, "GETATTR of %v", list(o), func() (err error) {
		a, err = w.call.Getattr(w.ctx, o.handle)
		return err
	}) {
		o.changes[a.change] = o.version
	}
}

func (w *writer) setMode(o *object) {
	modes := []uint32{0o600, 0o640, 0o644, 0o660, 0o664, 0o666}
	mode := modes[w.random.IntN(len(modes))]
	if o == w.shared {
		mode = firstMode // all writers set the mode of the shared file, so all use the same one
	}
	o.modes = append(o.modes, mode)
	if w.try(o, "SETATTR of mode %#o of %v", list(mode, o), func() error { return w.call.SetMode(w.ctx, o.handle, mode) }) {
		o.mode, o.modes = mode, nil
	}
}

// truncate removes the last slots of a file.
func (w *writer) truncate() {
	o := w.any(w.files)
	left := w.random.IntN(len(o.slots))
	o.version++
	for _, r := range o.slots[left:] {
		r.send(0)
	}
	if w.try(o, "SETATTR of the size of %v to %d slots", list(o, left), func() error {
		return w.call.SetSize(w.ctx, o.handle, uint64(left*slotSize))
	}) {
		for _, r := range o.slots[left:] {
			r.settle(0)
		}
	}
}

func (w *writer) newName() string { return fmt.Sprint("n", w.serial.Add(1)) }

func (w *writer) newObject() *object {
	w.objects++
	return newObject(1000*(w.number+1)+w.objects, 0)
}

// learn reads the inode number of a new file.
func (w *writer) learn(o *object) {
	var a attributes
	if w.try(o, "GETATTR of %v", list(o), func() (err error) {
		a, err = w.call.Getattr(w.ctx, o.handle)
		return err
	}) {
		o.fileID = a.fileID
	}
}

func (w *writer) create(exclusive bool) {
	o, at := w.newObject(), w.newName()
	how := createHow{exclusive: exclusive}
	binary.BigEndian.PutUint32(how.verifier[:], uint32(w.number)<<16|uint32(w.objects))
	binary.BigEndian.PutUint32(how.verifier[4:], w.random.Uint32())
	if exclusive {
		o.mode = 0 // unknown: the server chooses it
	}
	w.entries.send(at, o)
	if !w.try(nil, "CREATE of %s, exclusive: %v", list(at, exclusive), func() (err error) {
		o.handle, err = w.call.Create(w.ctx, w.dir, at, how)
		return err
	}) {
		return
	}
	w.entries.settle(at, o)
	o.exists = true
	w.learn(o)
	w.names[o] = at
	if exclusive {
		w.exclusive = append(w.exclusive, made{at, how, o})
	} else {
		w.live = append(w.live, o)
	}
}

// repeat repeats an exclusive create that has succeeded. It must succeed again, with the same
// file.
func (w *writer) repeat() {
	if len(w.exclusive) == 0 {
		return
	}
	m := w.exclusive[w.random.IntN(len(w.exclusive))]
	var file client.Handle
	var a attributes
	if !w.try(nil, "exclusive CREATE of %s again", list(m.name), func() (err error) {
		file, err = w.call.Create(w.ctx, w.dir, m.name, m.how)
		return err
	}) {
		return
	}
	if w.try(nil, "GETATTR of %s", list(m.name), func() (err error) {
		a, err = w.call.Getattr(w.ctx, file)
		return err
	}) && m.o.fileID != 0 && a.fileID != m.o.fileID {
		w.report("an exclusive CREATE that was repeated gives inode %d, not %d", a.fileID, m.o.fileID)
	}
}

func (w *writer) mkdir() {
	if len(w.dirs) > 3 {
		w.rmdir()
		return
	}
	o, at := w.newObject(), w.newName()
	o.isDir = true
	w.entries.send(at, o)
	if !w.try(nil, "MKDIR of %s", list(at), func() (err error) {
		o.handle, err = w.call.Mkdir(w.ctx, w.dir, at)
		return err
	}) {
		return
	}
	w.entries.settle(at, o)
	o.exists = true
	w.learn(o)
	w.dirs = append(w.dirs, at)
}

func (w *writer) rmdir() {
	at := w.dirs[0]
	w.dirs = w.dirs[1:]
	w.entries[at].settled.exists = false
	w.entries.send(at, nil)
	if w.try(nil, "RMDIR of %s", list(at), func() error { return w.call.Rmdir(w.ctx, w.dir, at) }) {
		w.entries.settle(at, nil)
		w.isGone(at)
	}
}

// takeLive removes a file from w.live and returns it. If w.live is empty and w.exclusive has more
// than 4 files, it takes the oldest file of w.exclusive instead. Otherwise it returns nil. If the
// file still exists in the end, the caller adds it to w.live again.
func (w *writer) takeLive() *object {
	if len(w.live) == 0 {
		if len(w.exclusive) > 4 {
			o := w.exclusive[0].o
			w.exclusive = w.exclusive[1:]
			return o
		}
		return nil
	}
	i := w.random.IntN(len(w.live))
	o := w.live[i]
	w.live = slices.Delete(w.live, i, i+1)
	return o
}

func (w *writer) remove() {
	o := w.takeLive()
	if o == nil {
		return
	}
	at := w.names[o]
	o.exists = false
	w.entries.send(at, nil)
	if w.try(nil, "REMOVE of %s", list(at), func() error { return w.call.Remove(w.ctx, w.dir, at) }) {
		w.entries.settle(at, nil)
		w.isGone(at)
	}
}

// isGone checks that LOOKUP does not find a name that was removed.
func (w *writer) isGone(at string) {
	if w.ended {
		return
	}
	_, err := w.call.Lookup(w.ctx, w.dir, at)
	if s, told := statusOf(err); told && s == statusOK && !w.round.device.off.Load() {
		w.report("LOOKUP finds %s, which is gone", at)
	}
}

// rename moves a file to a new name, or over another file.
func (w *writer) rename() {
	o := w.takeLive()
	if o == nil {
		return
	}
	from, to := w.names[o], w.newName()
	if over := w.takeLive(); over != nil && w.random.IntN(2) == 0 {
		over.exists = false
		to = w.names[over]
	} else if over != nil {
		w.live = append(w.live, over)
	}
	w.entries.send(from, nil)
	w.entries.send(to, o)
	if w.try(nil, "RENAME of %s to %s", list(from, to), func() error { return w.call.Rename(w.ctx, w.dir, from, w.dir, to) }) {
		w.entries.settle(from, nil)
		w.entries.settle(to, o)
		w.names[o] = to
		w.live = append(w.live, o)
		w.isGone(from)
	}
}
