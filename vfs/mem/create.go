package memfs

import (
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Create implements vfs.FileSystem.
func (f *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	m := making{kind: vfs.Regular, set: &how.Attr, how: how}
	if how.Mode == vfs.Exclusive {
		applied := how.Attr.OfExclusive()
		m.set = &applied
	}
	return f.make(op, Create, dir, name, &m)
}

// Mkdir implements vfs.FileSystem.
func (f *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return f.make(op, Mkdir, dir, name, &making{kind: vfs.Directory, set: s})
}

// Symlink implements vfs.FileSystem.
func (f *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return f.make(op, Symlink, dir, name, &making{kind: vfs.Symlink, set: s, text: text})
}

// Mknod implements vfs.FileSystem.
func (f *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	m := making{kind: t, set: s}
	switch t {
	case vfs.BlockDevice, vfs.CharDevice:
		m.major, m.minor = major, minor
	case vfs.Socket, vfs.FIFO:
	default:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	}
	return f.make(op, Mknod, dir, name, &m)
}

// A making describes an object that a call is to make.
type making struct {
	kind         vfs.Type
	set          *vfs.SetAttr
	text         []byte
	major, minor uint32
	how          *vfs.CreateHow // the argument of Create; nil in other methods
}

func (f *FS) make(op *vfs.Op, call Method, dir vfs.Handle, name []byte, m *making) (o vfs.Object, ch vfs.Change, err error) {
	ch, err = f.alterDir(op, call, dir, func(d *node) error {
		if err := vfs.CheckName(name, maxName); err != nil {
			return err
		}
		if !may(op.Cred, &d.attr, mayExec) {
			return syscall.EACCES
		}
		if vfs.IsDot(name) {
			return syscall.EEXIST
		}
		if n := d.dir.get(name); n != nil {
			o, err = f.existing(op, n, m)
			return err
		}
		if !may(op.Cred, &d.attr, mayWrite) {
			return syscall.EACCES
		}
		n, err := f.child(op.Cred, d, m)
		if err != nil {
			return err
		}
		d.dir.put(name, n)
		if m.kind == vfs.Directory {
			d.attr.Nlink++
		}
		d.renamed(n.attr.Ctime)
		o = n.object(f)
		o.Created = true
		return nil
	})
	return o, ch, err
}

// existing handles a creation whose name exists already; n is the file of that name.
func (f *FS) existing(op *vfs.Op, n *node, m *making) (o vfs.Object, err error) {
	if m.how == nil || m.how.Mode == vfs.Guarded {
		return o, syscall.EEXIST
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attr.Type != vfs.Regular {
		return o, syscall.EEXIST
	}
	if m.how.Mode == vfs.Exclusive {
		if !n.exclusive || n.verifier != m.how.Verifier {
			return o, syscall.EEXIST
		}
		o = n.object(f)
		o.Created = true
		return o, nil
	}
	if m.set.SetSize {
		cut := vfs.SetAttr{SetSize: true, Size: m.set.Size}
		if err := maySet(op.Cred, n, &cut); err != nil {
			return o, err
		}
		f.set(op.Cred, n, &cut, f.now())
	}
	return n.object(f), nil
}

// child creates the node for m in directory d. The caller holds d.mu.
func (f *FS) child(c *vfs.Cred, d *node, m *making) (*node, error) {
	switch m.kind {
	case vfs.Directory:
		if d.attr.Nlink >= maxLink {
			return nil, syscall.EMLINK
		}
	case vfs.Symlink:
		switch {
		case len(m.text) == 0 || slices.Contains(m.text, 0):
			return nil, syscall.EINVAL
		case len(m.text) > maxText:
			return nil, syscall.ENAMETOOLONG
		}
	case vfs.BlockDevice, vfs.CharDevice:
		if c.UID != 0 {
			return nil, syscall.EPERM
		}
	}
	if m.set.SetSize && m.set.Size > maxFileSize {
		return nil, syscall.EFBIG
	}
	if m.set.Atime.Nsec >= 1e9 || m.set.Mtime.Nsec >= 1e9 {
		return nil, syscall.EINVAL
	}
	if f.files.Add(1) > int64(f.opt.Files) {
		f.files.Add(-1)
		return nil, syscall.ENOSPC
	}
	var mode uint32
	switch {
	case m.kind == vfs.Symlink:
		mode = 0o777
	case m.set.SetMode:
		mode = m.set.Masked().Mode // the umask always applies, because this file system has no ACLs
	}
	mode, gid := inherit(c, &d.attr, m.kind, mode)
	now := f.now()
	n := f.newNode(m.kind, mode, c.UID, gid, now)
	switch m.kind {
	case vfs.Regular:
		n.data = &fileData{}
		if m.how != nil && m.how.Mode == vfs.Exclusive {
			n.exclusive, n.verifier = true, m.how.Verifier
		}
	case vfs.Directory:
		n.dir = newDirectory(d)
		n.attr.Nlink = 2
		n.attr.Size = 2 * entryBytes
	case vfs.Symlink:
		n.text = slices.Clone(m.text)
		n.attr.Size = uint64(len(m.text))
	case vfs.BlockDevice, vfs.CharDevice:
		n.attr.Major, n.attr.Minor = m.major, m.minor
	}
	// If the caller may not set the owner or group, ignore them, so that the creation succeeds.
	rest := *m.set
	rest.SetMode = false
	rest.SetSize = rest.SetSize && m.kind == vfs.Regular
	mine := vfs.SetAttr{SetUID: rest.SetUID, SetGID: rest.SetGID, UID: rest.UID, GID: rest.GID}
	if maySet(c, n, &mine) != nil {
		rest.SetUID, rest.SetGID = false, false
	}
	if !rest.IsZero() {
		// If the caller is user 0 or has the file's group, setting the owner here does not clear the
		// set-id bits.
		bits := n.attr.Mode
		f.set(c, n, &rest, now)
		if c.UID == 0 || inGroup(c, n.attr.GID) {
			n.attr.Mode = bits
		}
	}
	f.nodes.put(n)
	return n, nil
}
