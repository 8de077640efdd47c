package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lockRanges is the number of ranges that owners lock in a file. In the first strictRanges of them owners neither wait nor
// are killed, so that a refusal there has to have a reason. A second file is locked as a whole.
const (
	lockRanges   = 4
	strictRanges = 2
	wholeFile    = lockRanges
)

// witness listens for owners. It writes each line that an owner sends to the file, behind the number of the owner's
// connection. The order of the lines is that of the events: an owner says what it is about to do, waits for the answer,
// does it, and says how that ended. When the history is long enough, the answer to an owner that wants a lock is "end": after
// this number of seconds, and after a lock of each kind and a refusal, however slow the machine is.
func witness(address, file string, seconds int) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	missing := map[string]bool{"refused": true}
	for kind := range lockers {
		missing[kind] = true
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	wanted := make(map[int]string) // the kind of the lock that an owner asks for
	say := func(who int, line string) (over bool) {
		mu.Lock()
		defer mu.Unlock()
		words := strings.Fields(line)
		switch {
		case words[0] == "B" && words[1] == "lock":
			if len(missing) == 0 && time.Now().After(end) {
				return true
			}
			wanted[who] = words[4]
		case words[0] == "E" && words[1] == "refused":
			delete(missing, "refused")
		case words[0] == "E":
			delete(missing, wanted[who])
		}
		fmt.Fprintf(out, "%d %s\n", who, line)
		return false
	}
	for who := 0; ; who++ {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				over := say(who, lines.Text())
				if over {
					fmt.Fprintln(conn, "end")
				} else if lines.Text()[0] == 'B' {
					fmt.Fprintln(conn)
				}
			}
			say(who, "X")
		}()
	}
}

// owners runs processes that each lock and unlock ranges of the files in a folder until the witness ends the history. Every
// fourth of them is killed now and then, and replaced by another one. Remote owners also use flock, which a server cannot
// tell from a lock of all bytes, but which does not conflict with such a lock of the same machine.
func owners(witness, folder string, count int, where string) error {
	errs := make(chan error, count)
	for i := range count {
		killed := "kept"
		if i%4 == 0 {
			killed = "killed"
		}
		go func() {
			for {
				cmd := exec.Command(os.Args[0], "owner", witness, folder, where, killed)
				cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
				if err := cmd.Start(); err != nil {
					errs <- err
					return
				}
				if killed == "killed" {
					time.AfterFunc(time.Second+rand.N(4*time.Second), func() { _ = cmd.Process.Kill() })
				}
				err := cmd.Wait()
				if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() < 0 {
					continue // it was killed
				}
				errs <- err
				return
			}
		}()
	}
	var err error
	for range count {
		err = errors.Join(err, <-errs)
	}
	return err
}

// A locker takes and gives up a lock of one kind.
type locker func(f *os.File, kind int16, start, length int64, wait bool) error

var lockers = map[string]locker{
	"fcntl": func(f *os.File, kind int16, start, length int64, wait bool) error {
		return lockBytes(f, unix.F_SETLK, unix.F_SETLKW, kind, start, length, wait)
	},
	"ofd": func(f *os.File, kind int16, start, length int64, wait bool) error {
		return lockBytes(f, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, kind, start, length, wait)
	},
	// lockf counts from the place in the file, and has exclusive locks alone.
	"lockf": func(f *os.File, kind int16, start, length int64, wait bool) error {
		if _, err := f.Seek(start, 0); err != nil {
			return err
		}
		return again(func() error {
			lock := unix.Flock_t{Type: kind, Whence: 1, Len: length}
			return unix.FcntlFlock(f.Fd(), pick(wait, unix.F_SETLKW, unix.F_SETLK), &lock)
		})
	},
	"flock": func(f *os.File, kind int16, _, _ int64, wait bool) error {
		how := map[int16]int{unix.F_RDLCK: unix.LOCK_SH, unix.F_WRLCK: unix.LOCK_EX, unix.F_UNLCK: unix.LOCK_UN}[kind]
		return again(func() error { return unix.Flock(int(f.Fd()), how|pick(wait, 0, unix.LOCK_NB)) })
	},
}

func lockBytes(f *os.File, try, await int, kind int16, start, length int64, wait bool) error {
	return again(func() error {
		return unix.FcntlFlock(f.Fd(), pick(wait, await, try), &unix.Flock_t{Type: kind, Start: start, Len: length})
	})
}

func pick(is bool, one, other int) int {
	if is {
		return one
	}
	return other
}

// again repeats what a signal has interrupted: Go's runtime sends signals to its threads.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// errEnd means that the witness ends the history.
var errEnd = errors.New("the history ends")

// owner locks and unlocks until the witness ends the history. It tells the witness "B lock RANGE KIND HOW" or
// "B unlock RANGE", and then "E RESULT".
func owner(address, folder string, remote, killed bool) error {
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(filepath.Join(folder, fmt.Sprint("locked", i)), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		files[i] = f
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	event := func(what string, do func() error) error {
		fmt.Fprintln(conn, "B", what)
		answer, err := answers.ReadString('\n')
		switch {
		case err != nil:
			return err
		case answer == "end\n":
			return errEnd
		}
		err = do()
		switch {
		case err == nil:
			fmt.Fprintln(conn, "E ok")
		case errors.Is(err, unix.EAGAIN):
			fmt.Fprintln(conn, "E refused")
		default:
			fmt.Fprintln(conn, "E failed")
			return fmt.Errorf("%s: %w", what, err)
		}
		return err
	}
	pause := 5 * time.Millisecond
	if !remote {
		pause = 50 * time.Millisecond // to leave the locks to clients, whose calls take longer
	}
	for first := remote; ; first = false {
		at := rand.IntN(lockRanges + 1)
		switch {
		case first: // a flock, so that the history has some however few locks a slow machine takes
			at = wholeFile
		case killed:
			at = strictRanges + rand.IntN(lockRanges+1-strictRanges)
		}
		f, start, length := files[0], int64(at)*10, int64(10)
		names := []string{"fcntl", "ofd", "lockf"}
		if at == wholeFile {
			f, start, length = files[1], 0, 0
			if names = []string{"fcntl", "ofd"}; remote {
				names = append(names, "flock")
			}
		}
		how := names[rand.IntN(len(names))]
		if first {
			how = "flock"
		}
		kind, shown := int16(unix.F_WRLCK), "write"
		if how != "lockf" && rand.IntN(2) == 0 {
			kind, shown = unix.F_RDLCK, "read"
		}
		wait := first || at >= strictRanges && rand.IntN(2) == 0
		err := event(fmt.Sprintf("lock %d %s %s", at, shown, how), func() error { return lockers[how](f, kind, start, length, wait) })
		switch {
		case err == errEnd:
			return nil
		case errors.Is(err, unix.EAGAIN) && !wait:
			time.Sleep(rand.N(pause))
			continue
		case err != nil:
			return err
		}
		time.Sleep(rand.N(pause))
		if err := event(fmt.Sprintf("unlock %d", at), func() error { return lockers[how](f, unix.F_UNLCK, start, length, false) }); err != nil {
			return err
		}
	}
}

// runOwner is owner with its arguments as words.
func runOwner(a []string) error {
	return owner(a[0], a[1], a[2] == "remote", a[3] == "killed")
}
