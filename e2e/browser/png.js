// Makes the screenshots of a browser smaller without a loss: no alpha channel, the best filter, the best compression.

import { constants, crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

/** Returns the same picture in fewer bytes, or the given bytes if they are not 8-bit RGB or RGBA. */
export function smaller(png) {
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const channels = { 2: 3, 6: 4 }[png[25]];
  if (png[24] !== 8 || !channels || png[28] !== 0) return png;
  const data = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") data.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const rows = unfiltered(inflateSync(Buffer.concat(data)), width, height, channels);
  const header = Buffer.from(png.subarray(16, 29));
  const pixels = Buffer.alloc(width * height * 3);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    if (channels === 4 && rows[pixel * 4 + 3] !== 255) return png;
    rows.copy(pixels, pixel * 3, pixel * channels, pixel * channels + 3);
  }
  header[9] = 2;
  const options = { level: 9, memLevel: 9, windowBits: 15 };
  const candidates = [0, 1, 2, "least"].flatMap((filter) => {
    const lines = filtered(pixels, width * 3, height, filter);
    return [constants.Z_DEFAULT_STRATEGY, constants.Z_FILTERED].map((strategy) => deflateSync(lines, { ...options, strategy }));
  });
  const best = candidates.reduce((a, b) => (b.length < a.length ? b : a));
  const result = Buffer.concat([SIGNATURE, chunk("IHDR", header), chunk("IDAT", best), chunk("IEND", Buffer.alloc(0))]);
  return result.length < png.length ? result : png;
}

function paeth(a, b, c) {
  const [p, q, r] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  if (p <= q && p <= r) return a;
  return q <= r ? b : c;
}

/** What a filter predicts from the bytes to the left, above, and above to the left. */
const PREDICT = [() => 0, (a) => a, (_, b) => b, (a, b) => (a + b) >> 1, paeth];

function unfiltered(data, width, height, channels) {
  const stride = width * channels;
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const predict = PREDICT[data[y * (stride + 1)]];
    for (let x = 0; x < stride; x += 1) {
      const at = y * stride + x;
      const left = x >= channels ? rows[at - channels] : 0;
      const above = y > 0 ? rows[at - stride] : 0;
      const corner = x >= channels && y > 0 ? rows[at - stride - channels] : 0;
      rows[at] = data[y * (stride + 1) + 1 + x] + predict(left, above, corner);
    }
  }
  return rows;
}

/** Filters all rows by one filter, or each by the one with the least sum of differences. */
function filtered(rows, stride, height, filter) {
  const lines = Buffer.alloc((stride + 1) * height);
  const line = Buffer.alloc(stride);
  for (let y = 0; y < height; y += 1) {
    let least = Infinity;
    for (const number of filter === "least" ? PREDICT.keys() : [filter]) {
      let sum = 0;
      for (let x = 0; x < stride; x += 1) {
        const at = y * stride + x;
        const left = x >= 3 ? rows[at - 3] : 0;
        const above = y > 0 ? rows[at - stride] : 0;
        const corner = x >= 3 && y > 0 ? rows[at - stride - 3] : 0;
        line[x] = rows[at] - PREDICT[number](left, above, corner);
        sum += line[x] < 128 ? line[x] : 256 - line[x];
      }
      if (sum < least) {
        least = sum;
        lines[y * (stride + 1)] = number;
        line.copy(lines, y * (stride + 1) + 1);
      }
    }
  }
  return lines;
}
