package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
)

// closing is how long a Server takes to end, at most, after the drain timeout is over. The Server
// has to finish its steps (see ending) in the first three quarters of this time; the process exits
// in the last quarter.
const closing = 2 * time.Second

// EndsWithin returns the longest time that a Server takes to end, even if something hangs: the
// drain timeout and two seconds.
func EndsWithin(c *config.Config) time.Duration { return time.Duration(c.DrainTimeout) + closing }

// Unfinished lists the parts of a Server that did not end in time. The Server leaves them behind:
// their goroutines run on, and the files and connections that they use stay open until the
// process exits.
type Unfinished struct {
	Left []string
	Took time.Duration
}

func (e *Unfinished) Error() string {
	return fmt.Sprintf("after %v these steps did not finish, and were left behind: %s", e.Took.Round(time.Millisecond), strings.Join(e.Left, "; "))
}

// An ending ends a Server in named steps with one deadline. If a step does not end in its time,
// the ending leaves it behind and continues with the next. A step usually gets half of the
// remaining time, so that some is left for those after it.
type ending struct {
	log      *zap.Logger
	began    time.Time
	deadline time.Time
	steps    []*step
	left     []string // what is left behind, besides steps
}

// A step is one part of an ending, such as closing connections. It runs on a goroutine of its own.
type step struct {
	name  string
	until time.Time     // the step's deadline
	done  chan struct{} // closed when the step has ended
}

func newEnding(log *zap.Logger, within time.Duration) *ending {
	now := time.Now()
	return &ending{log: log, began: now, deadline: now.Add(within)}
}

// half returns a step's usual deadline: a step may use half of the remaining time.
func (e *ending) half() time.Time {
	now := time.Now()
	return now.Add(e.deadline.Sub(now) / 2)
}

// begin starts a step, which calls the given function. The function's context ends at the given
// time, the deadline of the step.
func (e *ending) begin(name string, until time.Time, do func(context.Context)) *step {
	st := &step{name: name, until: until, done: make(chan struct{})}
	e.steps = append(e.steps, st)
	ctx, cancel := context.WithDeadline(context.Background(), until)
	go func() {
		defer close(st.done)
		defer cancel()
		do(ctx)
	}()
	return st
}

// punctual is how long wait still waits after a step's deadline, because a step that ends when its
// context ends does so a little later. wait waits for at most half of the time between the deadline
// of the step and the deadline of the whole ending.
const punctual = 100 * time.Millisecond

// wait waits until the steps have ended. If a step has not ended by its deadline, nor in the time
// punctual after it, wait logs this and returns false.
func (e *ending) wait(steps ...*step) (ended bool) {
	ended = true
	for _, st := range steps {
		late := time.NewTimer(time.Until(st.until.Add(min(punctual, e.deadline.Sub(st.until)/2))))
		select {
		case <-st.done:
		case <-late.C:
			e.log.Warn(logline.StepLate, zap.String("step", st.name), zap.Duration("after", time.Since(e.began).Round(time.Millisecond)))
			ended = false
		}
		late.Stop()
	}
	return ended
}

// do begins a step that has half of the remaining time, and waits for it.
func (e *ending) do(name string, do func(context.Context)) (ended bool) {
	return e.wait(e.begin(name, e.half(), do))
}

// result returns nil if all steps have ended by now, even after their deadlines, and nothing else
// was left behind. Otherwise it returns an *Unfinished. It writes the last line of the log.
func (e *ending) result() error {
	took := time.Since(e.began)
	for _, st := range e.steps {
		select {
		case <-st.done:
		default:
			e.left = append(e.left, st.name)
		}
	}
	if len(e.left) == 0 {
		e.log.Info(logline.Stopped, zap.Duration("took", took.Round(time.Millisecond)))
		return nil
	}
	e.log.Error(logline.StoppedUnfinished, zap.Strings("left", e.left), zap.Duration("took", took.Round(time.Millisecond)))
	return &Unfinished{e.left, took}
}
