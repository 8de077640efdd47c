package lab

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// BaseImage is the name of the image of Debian 12 in the store of Images.
const BaseImage = "localhost/debian:12"

// debianImage makes BaseImage from the files that mmdebstrap has put into debian.tar.
const debianImage = "FROM scratch\nADD debian.tar /\n"

// Images is the Part of the lab with a store of container images.
type Images struct{}

// String returns the name of the Part.
func (Images) String() string { return "images" }

// commands are the commands of Containerfile.verbs before its first COPY: they install the RDMA
// libraries.
func (Images) commands() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "Containerfile.verbs"))
	commands, _, _ := strings.Cut(string(text), "\nCOPY ")
	return commands, err
}

// repository returns the folder of go.mod: the working directory or one above it.
func repository() (string, error) {
	at, err := os.Getwd()
	for ; err == nil; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("no go.mod in the working directory or above it: run this inside the repository")
		}
	}
	return "", err
}

func (i Images) artifact() (artifact, error) {
	commands, err := i.commands()
	return artifact{name: i.String(), ingredients: []string{commands, debianImage}}, err
}

// Ready implements Part.
func (i Images) Ready() bool {
	images, err := i.artifact()
	return err == nil && images.ready()
}

func (Images) effort() string { return "takes one to two minutes" }

func (i Images) build() error {
	images, err := i.artifact()
	if err != nil {
		return err
	}
	return images.make(func(folder string) error { return buildLayers(folder, images.ingredients[0]) })
}

// Store returns the folder of the store. It contains BaseImage, and the layers that the commands of
// Containerfile.verbs before its first COPY add to it. A build that uses these layers needs no
// network.
func (i Images) Store(t testing.TB) string {
	t.Helper()
	images, err := i.artifact()
	if err != nil {
		t.Fatal(err)
	}
	if !images.ready() {
		t.Fatal("there is no store of images: run go run ./test/kernel/setup images")
	}
	return images.path()
}

func buildLayers(store, commands string) error {
	work, err := os.MkdirTemp("", "nfsrdmad-lab-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &recipe{folder: work}
	site, err := mirror(r)
	if err != nil {
		return err
	}
	if err := r.run("mmdebstrap", "--variant=minbase", "bookworm", "debian.tar", site); err != nil {
		return err
	}
	build := append(Buildah(store, filepath.Join(work, "running")), "build", "--isolation", "chroot", "--layers")
	for _, image := range []struct{ text, option string }{{debianImage, "--tag=" + BaseImage}, {commands, "--build-arg=BASE=" + BaseImage}} {
		if err := os.WriteFile(filepath.Join(work, "Containerfile"), []byte(image.text), 0o644); err != nil {
			return err
		}
		if err := r.run("buildah", append(slices.Clone(build), image.option, ".")...); err != nil {
			return err
		}
	}
	return nil
}

// Buildah returns the arguments with which buildah uses a store of images of its own.
func Buildah(store, running string) []string {
	return []string{"--storage-driver", "overlay", "--root", store, "--runroot", running}
}
