package vfstest

import "github.com/nfsrdmad/nfsrdmad/vfs"

// further has the optional interfaces whose methods take an Op.
type further interface {
	vfs.Opener
	vfs.Sparse
	vfs.Copier
	vfs.Xattrs
}

// hesitantFurther is the file system that Hesitant returns if the wrapped one has all interfaces in
// further. It wraps their methods, too.
type hesitantFurther struct {
	hesitant
	further further
}

func (f *hesitantFurther) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	if err := f.before(op, "Open"); err != nil {
		return nil, err
	}
	file, err := f.further.Open(op, h, access)
	if err != nil {
		return nil, err
	}
	return &hesitantFile{file, &f.hesitant}, nil
}

// hesitantFile wraps a File that hesitantFurther.Open opened. Its methods return vfs.ErrWouldBlock
// under the same conditions as those of the file system.
type hesitantFile struct {
	vfs.File
	fs *hesitant
}

// behind returns the File that a hesitantFile wraps. It returns any other File unchanged.
func behind(f vfs.File) vfs.File {
	if h, ok := f.(*hesitantFile); ok {
		return h.File
	}
	return f
}

func (f *hesitantFile) Read(op *vfs.Op, off uint64, buf []byte, a *vfs.Attr) (n int, eof bool, err error) {
	if err := f.fs.before(op, "File.Read"); err != nil {
		return 0, false, err
	}
	return f.File.Read(op, off, buf, a)
}

func (f *hesitantFile) Write(op *vfs.Op, off uint64, data [][]byte, s vfs.Stability) (n int, done vfs.Stability, ch vfs.Change, err error) {
	if err := f.fs.before(op, "File.Write"); err != nil {
		return 0, 0, ch, err
	}
	return f.File.Write(op, off, data, s)
}

func (f *hesitantFile) Commit(op *vfs.Op, off uint64, count uint32) (ch vfs.Change, err error) {
	if err := f.fs.before(op, "File.Commit"); err != nil {
		return ch, err
	}
	return f.File.Commit(op, off, count)
}

func (f *hesitantFile) SetSize(op *vfs.Op, size uint64) (ch vfs.Change, err error) {
	if err := f.fs.before(op, "File.SetSize"); err != nil {
		return ch, err
	}
	return f.File.SetSize(op, size)
}

func (f *hesitantFurther) Allocate(op *vfs.Op, file vfs.File, off, length uint64) error {
	if err := f.before(op, "Allocate"); err != nil {
		return err
	}
	return f.further.Allocate(op, behind(file), off, length)
}

func (f *hesitantFurther) Deallocate(op *vfs.Op, file vfs.File, off, length uint64) error {
	if err := f.before(op, "Deallocate"); err != nil {
		return err
	}
	return f.further.Deallocate(op, behind(file), off, length)
}

func (f *hesitantFurther) Seek(op *vfs.Op, file vfs.File, off uint64, what vfs.SeekWhat) (at uint64, eof bool, err error) {
	if err := f.before(op, "Seek"); err != nil {
		return 0, false, err
	}
	return f.further.Seek(op, behind(file), off, what)
}

func (f *hesitantFurther) CopyRange(op *vfs.Op, from vfs.File, fromOff uint64, to vfs.File, toOff, count uint64) (uint64, error) {
	if err := f.before(op, "CopyRange"); err != nil {
		return 0, err
	}
	return f.further.CopyRange(op, behind(from), fromOff, behind(to), toOff, count)
}

func (f *hesitantFurther) CloneRange(op *vfs.Op, from vfs.File, fromOff uint64, to vfs.File, toOff, count uint64) error {
	if err := f.before(op, "CloneRange"); err != nil {
		return err
	}
	return f.further.CloneRange(op, behind(from), fromOff, behind(to), toOff, count)
}

func (f *hesitantFurther) KeepsXattrs() bool { return f.further.KeepsXattrs() }

func (f *hesitantFurther) GetXattr(op *vfs.Op, h vfs.Handle, name, buf []byte) (int, error) {
	if err := f.before(op, "GetXattr"); err != nil {
		return 0, err
	}
	return f.further.GetXattr(op, h, name, buf)
}

func (f *hesitantFurther) SetXattr(op *vfs.Op, h vfs.Handle, name, value []byte, mode vfs.XattrMode) (ch vfs.Change, err error) {
	if err := f.before(op, "SetXattr"); err != nil {
		return ch, err
	}
	return f.further.SetXattr(op, h, name, value, mode)
}

func (f *hesitantFurther) ListXattrs(op *vfs.Op, h vfs.Handle, buf []byte) (int, error) {
	if err := f.before(op, "ListXattrs"); err != nil {
		return 0, err
	}
	return f.further.ListXattrs(op, h, buf)
}

func (f *hesitantFurther) RemoveXattr(op *vfs.Op, h vfs.Handle, name []byte) (ch vfs.Change, err error) {
	if err := f.before(op, "RemoveXattr"); err != nil {
		return ch, err
	}
	return f.further.RemoveXattr(op, h, name)
}
