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

// The user-mode kernel stores the registers of its processes and passes them to the host's
// ptrace, which takes all registers of the processor or none. Linux 6.12 has a buffer of 2,696
// bytes, which is enough up to AVX-512. A processor with AMX has registers of 11,008 bytes. For
// such a processor the lab builds the kernel with a larger buffer, and with stacks twice as
// large, because a part of the buffer is on them. For other processors the kernel is unchanged,
// because each interrupt copies the buffer twice. Linux 7.2 asks the machine for the size of the
// buffer when it starts, and needs only the stacks.
const (
	registersFile = "arch/x86/um/user-offsets.c"
	registersRoom = "DEFINE_LONGS(HOST_FP_SIZE, 2696);"
	registersWide = "DEFINE_LONGS(HOST_FP_SIZE, 12288);"
	stacksWide    = "\nCONFIG_KERNEL_STACK_ORDER=3\n"
)

// hasAMX reports whether this machine's processor has AMX registers.
var hasAMX = sync.OnceValue(func() bool {
	processors, _ := os.ReadFile("/proc/cpuinfo") // if unreadable, the kernel is built without changes
	return bytes.Contains(processors, []byte(" amx_tile"))
})

// makeRoomForRegisters enlarges the register buffer in the source tree if this machine's
// processor needs that.
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

// fpRegs is the message that a user-mode kernel prints if it cannot set a process's registers.
const fpRegs = "set fp regs failed"

// UserModeRuns reports whether the user-mode kernel runs on this machine's processor. It does not
// run if the processor's registers are larger than those of AMX.
var UserModeRuns = sync.OnceValue(func() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, UserMode.source().program(), "mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"init=/bin/true", "con=null", "con0=null,fd:1", "panic=-1")
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm")
	out, _ := cmd.CombinedOutput() // always ends in a panic, because init exits
	return !bytes.Contains(out, []byte(fpRegs))
})
