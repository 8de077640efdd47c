package lab

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
)

//go:embed stock_init.sh
var stockInit string

// stockModules are the modules that a stock kernel needs before its root is mounted, for its
// network and its file systems.
var stockModules = []string{"virtio_pci", "virtio_net", "9p", "9pnet_virtio", "overlay"}

func stockArtifact(k Kernel) artifact {
	return artifact{name: "stock-" + string(k), ingredients: []string{stockInit, strings.Join(stockModules, " ")}}
}

// stockFile returns the path of a file of the kernel's set-up: vmlinuz, initrd, or modules, which
// becomes /lib/modules in the guest.
func stockFile(k Kernel, name string) string { return filepath.Join(stockArtifact(k).path(), name) }

// buildStock sets up Debian's kernel, unchanged. It builds siw, which Debian leaves out, from
// Debian's source and headers of the same version.
func buildStock(k Kernel) error {
	return stockArtifact(k).make(func(folder string) error {
		work := filepath.Join(folder, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		r := &recipe{folder: work}
		debian := &archive{recipe: r}
		if k != Stock6_1 {
			var err error
			if debian, err = backports(r); err != nil {
				return err
			}
		}
		image, err := debian.kernelImage()
		if err != nil {
			return err
		}
		release := strings.TrimPrefix(image, "linux-image-")
		if err := debian.unpack(image, "image"); err != nil {
			return err
		}
		siw, err := buildSIW(r, debian, k, release)
		if err != nil {
			return err
		}
		modules := filepath.Join(work, "image/lib/modules", release)
		if err := os.MkdirAll(filepath.Join(modules, "updates"), 0o755); err != nil {
			return err
		}
		if err := os.Rename(siw, filepath.Join(modules, "updates/siw.ko")); err != nil {
			return err
		}
		if err := r.run("depmod", "-b", filepath.Join(work, "image"), release); err != nil {
			return err
		}
		if err := writeInitrd(r, filepath.Join(work, "image"), release, filepath.Join(folder, "initrd")); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(work, "image/lib/modules"), filepath.Join(folder, "modules")); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(work, "image/boot/vmlinuz-"+release), filepath.Join(folder, "vmlinuz")); err != nil {
			return err
		}
		return os.RemoveAll(work)
	})
}

func buildSIW(r *recipe, debian *archive, k Kernel, release string) (module string, err error) {
	if err := debian.apt("install", "-y", "-q", "--no-install-recommends", "linux-headers-"+release); err != nil {
		return "", err
	}
	tarball, err := debian.source(string(k))
	if err != nil {
		return "", err
	}
	siw := "linux-source-" + string(k) + "/drivers/infiniband/sw/siw"
	if err := r.run("tar", "-xf", tarball, siw); err != nil {
		return "", err
	}
	folder := filepath.Join(r.folder, siw)
	if err := r.run("make", "-s", "-C", "/lib/modules/"+release+"/build", "M="+folder, "CONFIG_RDMA_SIW=m", "modules"); err != nil {
		return "", err
	}
	module = filepath.Join(folder, "siw.ko")
	return module, r.run("strip", "--strip-debug", module)
}
