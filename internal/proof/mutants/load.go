package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// source is a package whose code is mutated.
type source struct {
	path  string // of its import
	dir   string
	name  string // the last part of path
	files []*file
	info  *types.Info
	types *types.Package
}

type file struct {
	path string
	text []byte
	ast  *ast.File
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load parses and type-checks packages of the module in dir.
func load(ctx context.Context, dir string, fset *token.FileSet, patterns ...string) ([]*source, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, complaint.String())
	}
	exports := map[string]string{}
	var wanted []listed
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			wanted = append(wanted, p)
		}
	}
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []*source
	for _, p := range wanted {
		s, err := check(fset, imports, p)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *source) int { return bytes.Compare([]byte(a.path), []byte(b.path)) })
	return all, nil
}

func check(fset *token.FileSet, imports types.Importer, p listed) (*source, error) {
	s := &source{path: p.ImportPath, dir: p.Dir, name: filepath.Base(p.ImportPath)}
	s.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		s.files, parsed = append(s.files, &file{path, text, f}), append(parsed, f)
	}
	var err error
	s.types, err = (&types.Config{Importer: imports}).Check(p.ImportPath, fset, parsed, s.info)
	return s, err
}
