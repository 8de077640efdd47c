package lab

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writeInitrd writes the initial RAM disk of a stock kernel: busybox, the modules in the order in
// which they must be loaded, and the init script.
func writeInitrd(r *recipe, image, release, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	compressed := gzip.NewWriter(file)
	cpio := cpioWriter{to: compressed}
	for _, folder := range []string{"above", "below", "bin", "dev", "modules", "proc", "root", "sys"} {
		cpio.entry(folder, modeFolder|0o755, nil)
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	cpio.entry("bin/busybox", modeFile|0o755, busybox)
	cpio.entry("init", modeFile|0o755, []byte(stockInit))
	var order strings.Builder
	seen := map[string]bool{}
	for _, name := range stockModules {
		needed, err := r.read("modprobe", "-d", image, "-S", release, "--show-depends", name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(needed)) {
			words := strings.Fields(line) // "insmod /path/module.ko", or "builtin name"
			if len(words) < 2 || words[0] != "insmod" || seen[words[1]] {
				continue
			}
			seen[words[1]] = true
			module, err := readModule(r, words[1])
			if err != nil {
				return err
			}
			base := strings.TrimSuffix(filepath.Base(words[1]), ".xz")
			cpio.entry("modules/"+base, modeFile|0o644, module)
			order.WriteString(base + "\n")
		}
	}
	cpio.entry("modules/order", modeFile|0o644, []byte(order.String()))
	cpio.entry("TRAILER!!!", 0, nil)
	if cpio.err != nil {
		return cpio.err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return file.Close()
}

// readModule returns the content of a kernel module. Newer kernels have compressed modules.
func readModule(r *recipe, path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		return r.read("xz", "-dc", path)
	}
	return os.ReadFile(path)
}

const (
	modeFolder = 0o040000
	modeFile   = 0o100000
)

// cpioWriter writes a cpio archive of the format "newc", which the kernel unpacks (Linux,
// initramfs buffer format). After an error it writes nothing more.
type cpioWriter struct {
	to    io.Writer
	inode int
	err   error
}

func (w *cpioWriter) entry(name string, mode int, content []byte) {
	if w.err != nil {
		return
	}
	w.inode++
	var b bytes.Buffer
	b.WriteString("070701")
	// The fields are inode, mode, uid, gid, links, mtime, size, device and special device (major
	// and minor number of each), size of the name, and checksum.
	for _, field := range []int{w.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(&b, "%08x", field)
	}
	b.WriteString(name + "\x00")
	pad(&b)
	b.Write(content)
	pad(&b)
	_, w.err = w.to.Write(b.Bytes())
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
