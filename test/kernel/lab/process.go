package lab

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is a program that the lab started, in a process group of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and its output has been read
	err  error         // the result of Wait, once done is closed
	once sync.Once
}

// startProcess starts cmd and copies its standard output and error to `output`. The kernel kills
// the process when this program ends, however it ends.
func startProcess(cmd *exec.Cmd, output io.Writer) (*process, error) {
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	// Without WaitDelay, a grandchild that keeps the output open would delay Wait.
	cmd.WaitDelay = 2 * time.Second
	p := &process{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) id() int { return p.cmd.Process.Pid }

// kill kills the whole process group and waits until its leader has ended.
func (p *process) kill() {
	p.once.Do(func() {
		syscall.Kill(-p.id(), syscall.SIGKILL)
		<-p.done
	})
}

// terminate sends SIGTERM to the leader of the process group and returns its exit error. If the
// leader has not ended after the time limit, terminate kills the group and returns an error.
func (p *process) terminate(limit time.Duration) error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	if !p.ended(limit) {
		p.kill()
		return fmt.Errorf("did not end within %s of SIGTERM", limit)
	}
	return p.err
}

// ended waits until the program has ended, at most for the duration limit, and reports whether the
// program has ended.
func (p *process) ended(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
