package lab

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Leftovers returns descriptions of what remains of this process's networks: namespaces, processes
// in them, control groups, and folders of guests. After all tests have ended, anything that it
// returns is a fault of a test or of the lab.
func Leftovers() []string {
	var found []string
	for _, name := range networks(func(owner int) bool { return owner == os.Getpid() }) {
		found = append(found, "network "+name)
		for _, id := range processesIn(name) {
			found = append(found, fmt.Sprintf("process %d in %s", id, name))
		}
	}
	for _, parent := range []string{"/dev/shm", groupsRoot()} {
		folders, _ := filepath.Glob(filepath.Join(parent, fmt.Sprintf("%s%d-*", networkPrefix, os.Getpid())))
		found = append(found, folders...)
	}
	return found
}

// networks returns the names of network namespaces of the lab. The function wanted selects them by
// their owner, a process ID.
func networks(wanted func(owner int) bool) []string {
	var names []string
	entries, _ := os.ReadDir("/run/netns")
	for _, entry := range entries {
		if owner, ok := ownerOf(entry.Name()); ok && wanted(owner) {
			names = append(names, entry.Name())
		}
	}
	return names
}

func ownerOf(name string) (int, bool) {
	rest, ours := strings.CutPrefix(name, networkPrefix)
	if !ours {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "-")
	owner, err := strconv.Atoi(number)
	return owner, err == nil
}

func processesIn(network string) []int {
	out, _ := exec.Command("ip", "netns", "pids", network).Output()
	var ids []int
	for _, word := range strings.Fields(string(out)) {
		if id, err := strconv.Atoi(word); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// endNetwork kills every process in a network, and then removes the network and the control groups
// of its Machine.
func endNetwork(name string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ids := processesIn(name)
		if len(ids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v in %s do not end", ids, name)
		}
		for _, id := range ids {
			syscall.Kill(id, syscall.SIGKILL)
		}
	}
	if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
		return fmt.Errorf("removing network %s: %w: %s", name, err, out)
	}
	return endGroup(name)
}

// sweepOnce removes the networks and folders that earlier runs have left: those whose process has
// ended.
var sweepOnce = sync.OnceFunc(func() {
	gone := func(owner int) bool { return syscall.Kill(owner, 0) == syscall.ESRCH }
	for _, name := range networks(gone) {
		endNetwork(name)
	}
	folders, _ := filepath.Glob("/dev/shm/" + networkPrefix + "*")
	for _, folder := range folders {
		if owner, ok := ownerOf(filepath.Base(folder)); ok && gone(owner) {
			os.RemoveAll(folder)
		}
	}
})

// interrupted is true when this program is about to end because of a signal. Tests then create no
// more networks.
var interrupted atomic.Bool

// watchInterrupts removes the networks and folders before SIGINT or SIGTERM ends this program,
// because the cleanup functions of the tests do not run then.
var watchInterrupts = sync.OnceFunc(func() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		reason := <-caught
		interrupted.Store(true)
		for _, name := range networks(func(owner int) bool { return owner == os.Getpid() }) {
			endNetwork(name)
		}
		folders, _ := filepath.Glob(filepath.Join("/dev/shm", fmt.Sprintf("%s%d-*", networkPrefix, os.Getpid())))
		for _, folder := range folders {
			os.RemoveAll(folder)
		}
		signal.Reset(reason)
		syscall.Kill(os.Getpid(), reason.(syscall.Signal))
	}()
})
