package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// getentTime is how long getent may take, the wait for its turn included; asking is how
// many may run at a time.
const getentTime = 10 * time.Second

var asking = make(chan struct{}, 4)

// initgroups is the database of users' groups.
const initgroups = "initgroups"

// marker is the name of a service that no machine has. getent looks for its library just when
// the service before it is unavailable, and the dynamic loader tells of that.
const marker = "nfsrdmad"

// getent asks the services of this machine, each in turn, for the line of a database that
// tells of key: nil where there is none. Of initgroups it has the lines of all services. An
// error says that a service that may know the key could not be asked, or did not answer in
// time. No more than a few processes run at a time: others wait for them.
//
// This process has no C library, which alone can load services, so getent(1) is the helper
// that asks them. Its exit status is one for "no such entry" and "no answer". So each service
// is asked by itself, as "SERVICE [NOTFOUND=return] nfsrdmad": the C library goes on to the
// library of the last one where SERVICE is unavailable, and nowhere else. LD_DEBUG=libs
// (ld.so(8)) has the loader tell that.
func (m *Map) getent(ctx context.Context, database, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getentTime)
	defer cancel()
	select {
	case asking <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("getent %s %s has no turn in %v: others do not answer", database, key, getentTime)
	}
	defer func() { <-asking }()
	names := []string{database}
	if database == initgroups {
		names = append(names, databases[Group]) // glibc's own default
	}
	services, ok, err := servicesOf(m.cfg.Switch, names...)
	if err != nil {
		return nil, err
	}
	if !ok { // the C library has a default, or there is another one than glibc
		line, _, err := run(ctx, database, key)
		return line, err
	}
	var answer []byte
	var down error
	for _, s := range services {
		line, told, err := run(ctx, "-s", fmt.Sprintf("%s:%s [SUCCESS=return NOTFOUND=return] %s", database, s.name, marker), database, key)
		unavailable := s.unavailable(told)
		switch {
		case err != nil:
			return nil, err
		case unavailable:
			down = fmt.Errorf("getent %s %s: service %s %w", database, key, s.name, errUnavailable)
		case database == initgroups:
			answer = append(append(answer, line...), '\n')
		case line != nil:
			return line, nil
		}
		if s.last && !unavailable {
			break
		}
	}
	return answer, down
}

// mostTold bounds what is kept of what the loader tells, in bytes.
const mostTold = 1 << 20

// run runs getent once. line is the first that it says; nil where there is none, or no getent:
// then the files are all that this machine has. told is what the loader told.
func run(ctx context.Context, args ...string) (line []byte, told string, err error) {
	out, loader := capped{left: maxLine}, capped{left: mostTold}
	c := exec.CommandContext(ctx, "getent", args...)
	c.Env = append(os.Environ(), "LD_DEBUG=libs")
	c.Stdout, c.Stderr, c.WaitDelay = &out, &loader, time.Second
	err = c.Run()
	asked := "getent " + strings.Join(args[len(args)-2:], " ")
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, exec.ErrNotFound), ended && exit.Exited():
		return nil, string(loader.bytes), nil
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("%s does not answer in %v", asked, getentTime)
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", asked, err)
	}
	line, _, _ = bytes.Cut(out.bytes, []byte{'\n'})
	return line, string(loader.bytes), nil
}

// unavailable says of what the loader told that a service of this machine did not answer. One
// whose library is not installed is none of its services.
func (s *nssService) unavailable(told string) bool {
	if slices.Contains(ownServices, s.name) || !strings.Contains(told, "libnss_"+marker+".so") {
		return false
	}
	for line := range strings.Lines(told) {
		if strings.Contains(line, "calling init: ") && strings.Contains(line, "/libnss_"+s.name+".so") {
			return true
		}
	}
	return false
}

// capped keeps the first bytes that are written.
type capped struct {
	bytes []byte
	left  int
}

func (c *capped) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.bytes = append(c.bytes, b[:n]...)
	c.left -= n
	return len(b), nil
}
