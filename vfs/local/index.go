package local

import "errors"

func openIndex(fs *FS, dir string, root any) (resolver, error) {
	return nil, errors.New("no index yet")
}
