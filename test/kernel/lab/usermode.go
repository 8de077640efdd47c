package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// The user-mode kernel keeps the registers of its processes itself, and hands them to the host's
// ptrace, which takes either all registers of the processor or none. Linux 6.12 has room for
// 2,696 bytes, up to AVX-512. A processor with AMX has 11,008: for it the lab builds the kernel
// with more room, and with stacks twice as large, because a part of that room is on them. On
// other processors the kernel stays as it is, because each interrupt copies the room twice.
const (
	registersFile = "arch/x86/um/user-offsets.c"
	registersRoom = "DEFINE_LONGS(HOST_FP_SIZE, 2696);"
	registersWide = "DEFINE_LONGS(HOST_FP_SIZE, 12288);"
	stacksWide    = "\nCONFIG_KERNEL_STACK_ORDER=3\n"
)

// hasAMX reports whether this machine's processor has the registers of AMX.
var hasAMX = sync.OnceValue(func() bool {
	processors, _ := os.ReadFile("/proc/cpuinfo") // if unreadable: the kernel as Debian has it
	return bytes.Contains(processors, []byte(" amx_tile"))
})

// userModeSettings returns uml.config, and the settings that this machine's processor needs.
func userModeSettings() string {
	if hasAMX() {
		return userModeConfig + stacksWide
	}
	return userModeConfig
}

// makeRoomForRegisters changes the source in tree if this machine's processor has more registers
// than the source has room for.
func makeRoomForRegisters(tree string) error {
	if !hasAMX() {
		return nil
	}
	file := filepath.Join(tree, registersFile)
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	wide := bytes.Replace(source, []byte(registersRoom), []byte(registersWide), 1)
	if bytes.Equal(wide, source) {
		return fmt.Errorf("%s does not have the line %q, which is to make room for the registers of AMX", registersFile, registersRoom)
	}
	return os.WriteFile(file, wide, 0o644)
}

// fpRegs is the message of Linux in user mode when it cannot set a process's registers.
const fpRegs = "set fp regs failed"

// UserModeRuns reports whether the user-mode kernel runs on this machine's processor. It does not
// if the processor has still more registers.
var UserModeRuns = sync.OnceValue(func() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, userModeKernel(), "mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"init=/bin/true", "con=null", "con0=null,fd:1", "panic=-1")
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm")
	out, _ := cmd.CombinedOutput() // it ends by a panic either way: init has ended
	return !bytes.Contains(out, []byte(fpRegs))
})
