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

// A test process that has stallingFSVariable serves a FUSE file system instead of running tests.
// The variable names the directory. If rememberingVariable is set too, the kernel caches
// attributes and listings.
const (
	stallingFSVariable  = "NFSRDMAD_HOSTILE_FS"
	rememberingVariable = "NFSRDMAD_HOSTILE_FS_REMEMBERED"
)

// ServeStallingFS serves a FUSE file system until the process ends, if the environment has
// stallingFSVariable. TestMain calls it first.
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
	// SIGINT and SIGHUP go to the whole process group, but only the test process should react to
	// them.
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

// A stallingNode does not implement FLUSH. Otherwise the kernel would send FLUSH for each open
// file of a process that ends, and wait for the answer in a state in which no signal can kill the
// process.
type stallingNode struct{ *fs.LoopbackNode }

// WrapChild implements fs.NodeWrapChilder.
func (n *stallingNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &stallingNode{child.(*fs.LoopbackNode)}
}

// Flush implements fs.NodeFlusher.
func (n *stallingNode) Flush(context.Context, fs.FileHandle) syscall.Errno { return syscall.ENOSYS }

// A rememberedNode lets the kernel cache the listing of a directory.
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

// A StallingFS is a FUSE file system that shows a directory and can be made to stall. A separate
// process serves it. While that process is stopped, it answers no request of the kernel. A process
// that then waits for a request can be killed, because the server has not taken the request yet.
type StallingFS struct {
	t testing.TB
	// Files is the directory that the file system shows. Mount is its mount point.
	Files, Mount string
	server       *exec.Cmd
}

// newStallingFS mounts a StallingFS. If remembered is true, the kernel answers for attributes and
// listings that it has seen, and only look-ups of names and data need the server.
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

// close closes a file once. The server answers ENOSYS to the FLUSH, and from then on the kernel
// sends no FLUSH.
func (s *StallingFS) close() {
	s.t.Helper()
	const name = "first"
	makeFile(s.t, filepath.Join(s.Mount, name), nil)
	if err := os.Remove(filepath.Join(s.Mount, name)); err != nil {
		s.t.Fatal(err)
	}
}

// Stall makes every request to the file system wait. The caller ensures that no request is under
// way, because no signal can kill a process whose request the server has already taken.
func (s *StallingFS) Stall() {
	s.t.Helper()
	if err := s.server.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	// Until the process has stopped, a thread of the server may still take a request, so Stall
	// waits for that.
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

// End makes every waiting request fail, and unmounts the file system.
func (s *StallingFS) End() {
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	if err := unix.Unmount(s.Mount, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		s.t.Errorf("unmounting %s: %v", s.Mount, err)
	}
}
