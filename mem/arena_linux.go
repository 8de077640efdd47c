package mem

import "golang.org/x/sys/unix"

// unreserved makes the kernel set no swap space aside for an arena, of which most pages may never be written.
const unreserved = unix.MAP_NORESERVE
