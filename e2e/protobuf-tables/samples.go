package main

import "io"
import "k8s.io/apimachinery/pkg/runtime"

func samples(out io.Writer, s *runtime.Scheme, n, seed int64) {}
func streams(out io.Writer, s *runtime.Scheme, seed int64)    {}
