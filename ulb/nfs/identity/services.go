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

// getentTime is the time limit of getent, including the wait until another getent has ended.
const getentTime = 10 * time.Second

// The capacity of asking is the maximum number of getent processes at once.
var asking = make(chan struct{}, 4)

// initgroups is getent's name of the database of users' groups.
const initgroups = "initgroups"

// marker is the name of a service that no machine has: see getent.
const marker = "nfsrdmad"

// getent asks the services of this machine, one after the other, for the line of a database about key, or
// for initgroups the lines of all services. It returns nil if there is none. An error means that a
// service that may know the key could not be asked or did not answer in time.
//
// Only a C library can load services, and this process has none. Therefore getent(1) asks them. Its exit
// status is the same for "no such entry" and "no answer". To tell these apart, each service is asked
// alone, as "SERVICE [SUCCESS=return NOTFOUND=return] nfsrdmad". The C library goes on to the library of
// "nfsrdmad" only if SERVICE is unavailable. With LD_DEBUG=libs (ld.so(8)) the loader reports that.
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
	if !ok { // the C library then has its own default
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

// mostAnswered and mostTold are how much run keeps of getent's answer, and of the dynamic loader's output,
// in bytes.
const mostAnswered, mostTold = 1 << 20, 1 << 20

// run runs getent once. line is the first line of its output; nil if there is no entry, or if this machine
// has no getent and therefore only files. told is the loader's output.
func run(ctx context.Context, args ...string) (line []byte, told string, err error) {
	out, loader := capped{left: mostAnswered}, capped{left: mostTold}
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

// unavailable reports whether the service s of this machine did not answer. told is the loader's
// output. A service whose library is not installed does not count as unavailable.
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

// capped keeps the first bytes that are written to it. left is how many it may still keep.
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

// An nssService is a service that nsswitch.conf(5) names for a database.
type nssService struct {
	name string
	// last is true if the services after this one are not asked when it answers "no such entry".
	last bool
}

// ownServices are the services that read files and the running system of this machine. They never
// count as unavailable: if one does not answer, the machine has no data for it.
var ownServices = []string{"files", "systemd", "compat", "db", "altfiles", "extrausers"}

// servicesOf returns the services that a file in the format of nsswitch.conf names for the first of
// databases that it contains. ok is false if it contains none of them.
func servicesOf(path string, databases ...string) (services []nssService, ok bool, err error) {
	lines := make(map[string]string)
	err = eachLine(path, func(line string) bool {
		line, _, _ = strings.Cut(line, "#")
		if database, of, ok := strings.Cut(line, ":"); ok {
			lines[strings.TrimSpace(database)] = of
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	for _, database := range databases {
		if line, ok := lines[database]; ok {
			return parseServices(line), true, nil
		}
	}
	return nil, false, nil
}

// parseServices reads a line such as "files sss [!UNAVAIL=return] ldap".
func parseServices(line string) (services []nssService) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '[' {
			actions, rest, _ := strings.Cut(line[1:], "]")
			line = rest
			for _, action := range strings.Fields(strings.ToUpper(actions)) {
				if n := len(services); n > 0 && (action == "NOTFOUND=RETURN" || action == "!UNAVAIL=RETURN" || action == "!TRYAGAIN=RETURN") {
					services[n-1].last = true
				}
			}
			continue
		}
		end := strings.IndexAny(line, " \t[")
		if end < 0 {
			end = len(line)
		}
		services = append(services, nssService{name: line[:end]})
		line = line[end:]
	}
	return services
}

// errUnavailable: a service that may know the key does not answer.
var errUnavailable = errors.New("does not answer, or is not set up; see that it runs, or take it out of " + switchFile)

// switchFile is the path of the file that lists the services of this machine.
const switchFile = "/etc/nsswitch.conf"
