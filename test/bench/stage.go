package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// patience is the longest time that a server may take to start.
const patience = 30 * time.Second

// A stage is the environment of the servers: a network namespace, and the directory that all of
// them serve.
type stage struct {
	o       options
	name    string
	work    string // directory for the servers' own files
	export  string
	closers []func()
}

func newStage(o options) (_ *stage, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	s := &stage{o: o, name: fmt.Sprintf("nfsrdmad-bench-%d", os.Getpid())}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.work, err = os.MkdirTemp("", "nfsrdmad-bench-"); err != nil {
		return nil, err
	}
	s.atEnd(func() { os.RemoveAll(s.work) })
	if s.export, err = os.MkdirTemp(o.dir, "nfsrdmad-bench-"); err != nil {
		return nil, err
	}
	s.atEnd(func() { os.RemoveAll(s.export) })
	if err = os.Chmod(s.export, 0o777); err != nil {
		return nil, err
	}
	if err = s.host("ip", "netns", "add", s.name); err != nil {
		return nil, err
	}
	s.atEnd(func() { s.host("ip", "netns", "delete", s.name) })
	return s, s.host("ip", "-n", s.name, "link", "set", "lo", "up")
}

func (s *stage) atEnd(f func()) { s.closers = append(s.closers, f) }

func (s *stage) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

func (s *stage) host(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, bytes.TrimSpace(out))
	}
	return nil
}

// command returns a program that runs in the namespace.
func (s *stage) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", s.name, name}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return c
}

// start runs a server until the stage is closed. It returns when the server listens on the given
// port.
func (s *stage) start(port int, name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.work, filepath.Base(name)+fmt.Sprint(port)+".log"))
	if err != nil {
		return err
	}
	c := s.command(context.Background(), name, args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var once sync.Once
	stop := func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		log.Close()
	}
	s.atEnd(func() { once.Do(stop) })
	deadline := time.Now().Add(patience)
	for !s.listens(port) {
		select {
		case err := <-ended:
			ended <- err
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("ended: %v: %s", err, bytes.TrimSpace(said))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("does not listen: %s", bytes.TrimSpace(said))
		}
	}
	return nil
}

func (s *stage) listens(port int) bool {
	out, err := exec.Command("ip", "netns", "exec", s.name, "ss", "-Hltn", fmt.Sprintf("sport = :%d", port)).Output()
	return err == nil && len(bytes.TrimSpace(out)) > 0
}
