//! The main job: `kinformer watch` while somebody writes.
