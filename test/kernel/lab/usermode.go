package lab

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"sync"
	"time"
)

// fpRegs is what Linux in user mode says where it cannot give a process its registers.
const fpRegs = "set fp regs failed"

// UserModeRuns says whether the user-mode kernel runs on this machine's processor. Linux
// 6.12 keeps room for the registers of processors up to AVX2; where the processor has
// more (AVX-512, AMX), the host's ptrace takes all of them or none, and no process of the
// guest starts.
var UserModeRuns = sync.OnceValue(func() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, userModeKernel(), "mem=96M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"init=/bin/true", "con=null", "con0=null,fd:1", "panic=-1")
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm")
	out, _ := cmd.CombinedOutput() // it ends by a panic either way: init has ended
	return !bytes.Contains(out, []byte(fpRegs))
})
