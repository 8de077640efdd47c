package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// An ending stays within its time limit, however many of its steps do not end. It continues after
// each such step, and its result names exactly these steps.
func TestEndingIsBoundedAndNamesUnfinishedSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		stuck []int // numbers of the steps that do not end, of ten
		late  []int // numbers of the steps that end a moment after the time limit
		took  time.Duration
	}{
		{"all end", nil, nil, 0},
		{"one is stuck", []int{3}, nil, 5 * time.Second},
		{"one is late", nil, []int{3}, 5 * time.Second},
		{"the last is stuck", []int{9}, nil, 5 * time.Second},
		{"all are stuck", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, 9 * time.Second},
		{"many are late", []int{0}, []int{1, 2, 3, 4, 5, 6, 7, 8}, 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zap.DebugLevel)
				const bound = 10 * time.Second
				release := make(chan struct{})
				defer close(release)
				began := time.Now()
				e := newEnding(zap.New(core), bound)
				var ran, left []string
				for i := range 10 {
					name := fmt.Sprint("step ", i)
					if slices.Contains(c.stuck, i) {
						left = append(left, name)
					}
					until := e.half()
					started := make(chan struct{})
					ended := e.do(name, func(ctx context.Context) {
						ran = append(ran, name)
						close(started)
						if at, ok := ctx.Deadline(); !ok || !at.Equal(until) {
							t.Errorf("%s: its context ends at %v, want %v", name, at, until)
						}
						switch {
						case slices.Contains(c.stuck, i):
							<-release
						case slices.Contains(c.late, i):
							time.Sleep(time.Until(until) + 2*punctual)
						}
					})
					<-started
					if want := !slices.Contains(c.stuck, i) && !slices.Contains(c.late, i); ended != want {
						t.Errorf("%s ended: %v", name, ended)
					}
				}
				if took := time.Since(began); took < c.took || took > bound {
					t.Errorf("it took %v, of at most %v", took, bound)
				}
				if len(c.late) > 0 {
					time.Sleep(bound) // the late steps end
				}
				err := e.result()
				if len(ran) != 10 {
					t.Errorf("only these ran: %q", ran)
				}
				var unfinished *Unfinished
				switch {
				case left == nil && err != nil:
					t.Errorf("everything ended: %v", err)
				case left != nil && (!errors.As(err, &unfinished) || !slices.Equal(unfinished.Left, left)):
					t.Errorf("left are %q: %v", left, err)
				}
				if n := logged.FilterMessageSnippet("stopped").Len(); n != 1 {
					t.Errorf("the log says %d times that it stopped", n)
				}
				if n := logged.FilterMessage("a step of the shutdown did not end in time: the daemon goes on without it").Len(); n != len(c.stuck)+len(c.late) {
					t.Errorf("the log names %d steps that do not end", n)
				}
			})
		})
	}
}

// Steps that run at the same time share one time limit.
func TestStepsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnding(zap.NewNop(), 10*time.Second)
		began, until := time.Now(), e.half()
		forever := make(chan struct{})
		defer close(forever)
		wait := func(context.Context) { <-forever }
		if e.wait(e.begin("a", until, wait), e.begin("b", until, wait)) {
			t.Error("steps that do not end have ended")
		}
		if took := time.Since(began); took > 5*time.Second+punctual {
			t.Errorf("two steps side by side took %v", took)
		}
	})
}
