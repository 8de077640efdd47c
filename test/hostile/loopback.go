package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Loopback makes the addresses of 127.0.0.0/8 and of Network6 usable in the run's own network
// namespace.
func Loopback() error {
	for _, args := range []string{"link set lo up", "-6 route add local " + Network6.String() + " dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
}
