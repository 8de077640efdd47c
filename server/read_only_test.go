package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A read-only export refuses each call of each user that would change something, and
// nothing changes. It serves calls that only read.
func TestReadOnlyExport(t *testing.T) {
	dir := t.TempDir()
	inside := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(inside("file"), []byte("content"), 0o666), os.Chmod(inside("file"), 0o666),
		os.Mkdir(inside("dir"), 0o777), os.Symlink("file", inside("link"))); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	d := startOn(t, dir, t.TempDir(), "ro,insecure,no_root_squash")
	ctx := testContext(t)
	for transport, c := range d.dialBoth(t) {
		root, err := c.Mount(ctx, "/")
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Lookup(ctx, root, "file")
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string) wire.DirOpArgs3 {
			return wire.DirOpArgs3{Dir: wire.FileHandle3{Data: root}, Name: []byte(name)}
		}
		file := wire.FileHandle3{Data: h}
		write := func(how wire.StableHow) *wire.Write3Args {
			return &wire.Write3Args{FileHandle: file, Count: 3, Stable: how, Data: xdr.Eligible{Data: []byte("new")}}
		}
		for _, call := range []struct {
			p    wire.Procedure
			args servertest.Encoder
		}{
			{wire.ProcSetattr, &wire.Setattr3Args{Object: file, NewAttributes: wire.Sattr3{Mode: wire.SetMode3{SetIt: true, Mode: 0o600}}}},
			{wire.ProcSetattr, &wire.Setattr3Args{Object: file, NewAttributes: wire.Sattr3{Size: wire.SetSize3{SetIt: true}}}},
			{wire.ProcWrite, write(wire.Unstable)},
			{wire.ProcWrite, write(wire.DataSync)},
			{wire.ProcWrite, write(wire.FileSync)},
			{wire.ProcCreate, &wire.Create3Args{Where: at("new"), How: wire.CreateHow3{Mode: wire.Unchecked}}},
			{wire.ProcCreate, &wire.Create3Args{Where: at("new"), How: wire.CreateHow3{Mode: wire.Guarded}}},
			{wire.ProcCreate, &wire.Create3Args{Where: at("new"), How: wire.CreateHow3{Mode: wire.Exclusive}}},
			{wire.ProcMkdir, &wire.Mkdir3Args{Where: at("new")}},
			{wire.ProcSymlink, &wire.Symlink3Args{Where: at("new"), Symlink: wire.SymlinkData3{SymlinkData: xdr.Eligible{Data: []byte("file")}}}},
			{wire.ProcMknod, &wire.Mknod3Args{Where: at("new"), What: wire.MknodData3{Type: wire.NF3Fifo}}},
			{wire.ProcRemove, &wire.Remove3Args{Object: at("file")}},
			{wire.ProcRmdir, &wire.Rmdir3Args{Object: at("dir")}},
			{wire.ProcRename, &wire.Rename3Args{From: at("file"), To: at("new")}},
			{wire.ProcLink, &wire.Link3Args{FileHandle: file, Link: at("new")}},
		} {
			for _, uid := range []uint32{0, 1001} {
				c.Cred = servertest.As(uid, uid)
				var status *servertest.StatusError
				if err := c.Status(ctx, call.p, call.args); !errors.As(err, &status) || status.Status != wire.NFS3ErrROFS {
					t.Errorf("%s: %v as %d: %v, want %v", transport, call.p, uid, err, wire.NFS3ErrROFS)
				}
			}
		}
		got := make([]byte, 100)
		if n, err := c.Read(ctx, h, 0, got); err != nil || string(got[:n]) != "content" {
			t.Errorf("%s: READ: %q, %v", transport, got[:n], err)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("it was\n%sand is\n%s", before, after)
	}
}

// tree describes a directory and all files below it, for comparison.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case info.Mode().Type() == os.ModeSymlink:
			if content, err = os.Readlink(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %v inode %d links %d owner %d:%d changed %d.%d %q\n", path, info.Mode(), st.Ino, st.Nlink, st.Uid, st.Gid, st.Ctim.Sec, st.Ctim.Nsec, content)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
