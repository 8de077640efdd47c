package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// These variables make a test program serve a file system instead: they name the directory, and
// say whether the kernel caches much of it.
const (
	stallingFSVariable  = "NFSRDMAD_HOSTILE_FS"
	rememberingVariable = "NFSRDMAD_HOSTILE_FS_REMEMBERED"
)

// ServeStallingFS serves a FUSE file system until the process ends, if this process was started
// for that. TestMain calls it first.
func ServeStallingFS() {
	dir := os.Getenv(stallingFSVariable)
	if dir == "" {
		return
	}
	if err := serveStallingFS(dir, os.Getenv(rememberingVariable) != ""); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveStallingFS(dir string, remembered bool) error {
	// Signals to the process group are for the tests.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	root, err := fs.NewLoopbackRoot(filepath.Join(dir, "files"))
	if err != nil {
		return err
	}
	root = &stallingNode{root.(*fs.LoopbackNode)}
	options := &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, AllowOther: true, Name: "hostile", FsName: "hostile",
	}}
	if remembered {
		hour := time.Hour
		options.AttrTimeout = &hour
		options.DisableReadDirPlus = true
		options.MountOptions.Options = []string{"default_permissions"}
		root = &rememberedNode{root.(*stallingNode)}
	}
	server, err := fs.Mount(filepath.Join(dir, "mount"), root, options)
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	server.Wait()
	return nil
}

// A stallingNode does not ask to be told when a descriptor is closed. Otherwise the kernel would
// wait for that at the end of each process that has a file open, in a state in which no signal
// can kill the process.
type stallingNode struct{ *fs.LoopbackNode }

// WrapChild implements fs.NodeWrapChilder.
func (n *stallingNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &stallingNode{child.(*fs.LoopbackNode)}
}

// Flush implements fs.NodeFlusher.
func (n *stallingNode) Flush(context.Context, fs.FileHandle) syscall.Errno { return syscall.ENOSYS }

// A rememberedNode lets the kernel keep the listing of a directory.
type rememberedNode struct{ *stallingNode }

// WrapChild implements fs.NodeWrapChilder.
func (n *rememberedNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &rememberedNode{&stallingNode{child.(*fs.LoopbackNode)}}
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *rememberedNode) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, more, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	return fh, more | fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE, errno
}

// A StallingFS is a FUSE file system that shows a directory and can be made to stall. Its server
// is a process of its own; while that process is stopped, nothing answers the kernel. A process
// that waits for it can be killed, because the server has not taken the request yet.
type StallingFS struct {
	t testing.TB
	// Files is the directory that it shows, Mount the place where it is mounted.
	Files, Mount string
	server       *exec.Cmd
}

// newStallingFS mounts a file system over an empty directory. If remembered, the kernel itself
// answers for attributes and listings that it has seen, and only names and data need the server.
func newStallingFS(t testing.TB, remembered bool) *StallingFS {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &StallingFS{t: t, Files: filepath.Join(dir, "files"), Mount: filepath.Join(dir, "mount")}
	for _, d := range []string{s.Files, s.Mount} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s.server = exec.Command(self)
	s.server.Env = append(os.Environ(), stallingFSVariable+"="+dir)
	if remembered {
		s.server.Env = append(s.server.Env, rememberingVariable+"=1")
	}
	s.server.Stderr = os.Stderr
	s.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.End)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "mounted" {
		t.Fatalf("a FUSE file system is not mounted: %q", lines.Text())
	}
	s.close()
	return s
}

// close closes a file, once: from then on the kernel knows that the file system does not ask to
// be told of that.
func (s *StallingFS) close() {
	s.t.Helper()
	const name = "first"
	makeFile(s.t, filepath.Join(s.Mount, name), nil)
	if err := os.Remove(filepath.Join(s.Mount, name)); err != nil {
		s.t.Fatal(err)
	}
}

// Stall makes every request to the file system wait. Earlier requests must have ended, because a
// request that the server has taken holds the process in the kernel, where no signal can kill it.
func (s *StallingFS) Stall() {
	s.t.Helper()
	if err := s.server.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	// Until then the last of the server's threads may still take a request.
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(s.server.Process.Pid, &status, unix.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			return
		}
		if err != unix.EINTR {
			s.t.Fatalf("the server of a FUSE file system does not stop: %v, status %#x", err, uint32(status))
		}
	}
}

// End lets every waiting request go on with an error, and removes the file system.
func (s *StallingFS) End() {
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	if err := unix.Unmount(s.Mount, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		s.t.Errorf("unmounting %s: %v", s.Mount, err)
	}
}
