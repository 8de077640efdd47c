package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// rangeBytes is the length, in bytes, of the part of the file in which ranges sets locks.
const rangeBytes = 48

// ranges locks and unlocks random byte ranges through several open file descriptions, and
// compares each result with a table of the locks on each byte.
func ranges(path string) error {
	const owners, steps = 4, 400
	var files [owners]*os.File
	for i := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		files[i] = f
	}
	var held [owners][rangeBytes]int16
	random := rand.New(rand.NewPCG(1, 2))
	granted, refused := 0, 0
	for step := range steps {
		who := random.IntN(owners)
		how := [...]int16{unix.F_RDLCK, unix.F_WRLCK, unix.F_UNLCK}[random.IntN(3)]
		from := random.IntN(rangeBytes)
		to := from + 1 + random.IntN(rangeBytes-from)
		conflict := false
		for other := range held {
			for i := from; i < to && other != who && how != unix.F_UNLCK; i++ {
				has := held[other][i]
				conflict = conflict || has == unix.F_WRLCK+1 || has == unix.F_RDLCK+1 && how == unix.F_WRLCK
			}
		}
		lock := unix.Flock_t{Type: how, Whence: 0, Start: int64(from), Len: int64(to - from)}
		err := unix.FcntlFlock(files[who].Fd(), unix.F_OFD_SETLK, &lock)
		switch {
		case err == nil && conflict:
			return fmt.Errorf("step %d: %d was granted lock %d of bytes %d to %d, which conflicts", step, who, how, from, to)
		case errors.Is(err, unix.EAGAIN) && conflict:
			refused++
			continue
		case err != nil:
			return fmt.Errorf("step %d: %d was refused lock %d of bytes %d to %d: %w", step, who, how, from, to, err)
		}
		granted++
		mark := how + 1
		if how == unix.F_UNLCK {
			mark = 0
		}
		for i := from; i < to; i++ {
			held[who][i] = mark
		}
	}
	if granted == 0 || refused == 0 {
		return fmt.Errorf("%d granted, %d refused: that shows nothing", granted, refused)
	}
	fmt.Printf("%d locks granted and given up, %d refused\n", granted, refused)
	return nil
}

// rangeOf requests a write lock on some bytes, and checks whether the lock is granted or refused,
// as expected. If further arguments name an event and a file, it reports the event and keeps the
// lock until the file exists.
func rangeOf(path string, from, length int, expected string, more []string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(from), Len: int64(length)})
	switch {
	case err != nil && !errors.Is(err, unix.EAGAIN):
		return err
	case (err == nil) != (expected == "granted"):
		return fmt.Errorf("bytes %d to %d: %v, and should be %s", from, from+length, err, expected)
	case len(more) == 2:
		fmt.Printf("::event %s\n", more[0])
		for !exists(more[1]) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}
